import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.reindex.ReindexModulePlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessModulePlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.PluginInfo;
import org.opensearch.transport.Netty4ModulePlugin;

/** As OpenSearch2Node, for OpenSearch 3: it wants its plugins described. */
public class OpenSearch3Node extends Node {
  OpenSearch3Node(Environment environment) {
    super(environment,
        List.of(info(Netty4ModulePlugin.class), info(PainlessModulePlugin.class), info(ReindexModulePlugin.class)),
        true);
  }

  private static PluginInfo info(Class<? extends Plugin> plugin) {
    String name = plugin.getName();
    return new PluginInfo(name, "on the class path", "NA", Version.CURRENT, "21", name, null, List.of(), false);
  }

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Settings given = Settings.builder().put("path.home", home.toString()).build();
    Node node = new OpenSearch3Node(
        InternalSettingsPreparer.prepareEnvironment(given, Map.of(), home.resolve("config"), () -> "node"));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();
    Thread.currentThread().join();
  }

  private static void close(Node node) {
    try {
      node.close();
    } catch (Exception e) {
      e.printStackTrace();
    }
  }
}
