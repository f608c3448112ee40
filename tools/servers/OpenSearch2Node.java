import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * One OpenSearch 2 node from plain jars: OpenSearch2Node FOLDER [PLUGIN-CLASS...].
 * The settings are in FOLDER/config/opensearch.yml; TERM ends it orderly.
 */
public class OpenSearch2Node extends Node {
  OpenSearch2Node(Environment environment, List<Class<? extends Plugin>> plugins) {
    super(environment, plugins, true);
  }

  private static List<Class<? extends Plugin>> plugins(List<String> more) throws ClassNotFoundException {
    List<Class<? extends Plugin>> all =
        new ArrayList<>(List.of(Netty4Plugin.class, PainlessPlugin.class, ReindexPlugin.class));
    for (String name : more) {
      all.add(Class.forName(name).asSubclass(Plugin.class));
    }
    return all;
  }

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Settings given = Settings.builder().put("path.home", home.toString()).build();
    Node node = new OpenSearch2Node(
        InternalSettingsPreparer.prepareEnvironment(given, Map.of(), home.resolve("config"), () -> "node"),
        plugins(Arrays.asList(args).subList(1, args.length)));
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
