# bash completion of mortise. Made by tools/faces from the descriptions in stdlib: change those, not this file.
# shellcheck shell=bash

_mortise_flags() { # _mortise_flags COMMAND
  case $1 in
    'run') echo '--sandbox --allow --memory --instructions --time' ;;
    'lock') echo '--shared --on-orphan --grace --fence-file' ;;
    'rename') echo '--merge --allow-empty --field --ids --strategy --wait-for-writes --max-rejected --no-journal --dry-run --json --yes --on-orphan --rate --batch --concurrency --plan --from-plan' ;;
    'migrate') echo '--alias --mappings --settings --change --keep-old-in-step --change-back --given --cutover --to-store --max-pause --verify --max-rejected --lock --id --rate --resume --dry-run --sandbox-change --wait-for-writes --json' ;;
    'job') echo '--resume --rollback --max-rejected --dry-run --sandbox-change --wait-for-writes --json --yes --others --on-orphan --rate --batch --concurrency --plan --from-plan' ;;
    'jobs') echo '--json --all --state --index --since --mine --rate --batch --concurrency --rejected --conflicts --html --for --max-rejected --older --dry-run --delete --wait-for-writes --others --yes' ;;
    'up') echo '--to --dry-run --status --out-of-order --repair --baseline --json' ;;
    'init') echo '--stripes --print --json' ;;
    'locks') echo '--all --waiting --mine --who --limit --hold --session --abandon --yes --json' ;;
    'sessions') echo '--mine --limit --abandon --yes --json' ;;
    'watch') echo '--interval --count --json' ;;
    'board') echo '--listen --interval --control --token-file --for' ;;
    'get') echo '--fields --routing --json' ;;
    'search') echo '--fields --sort --limit --all --json' ;;
    'count') echo '--json' ;;
    'put') echo '--create --merge --if --field --routing --on-orphan --yes --json' ;;
    'edit') echo '--field --routing --on-orphan' ;;
    'doctor') echo '--fix --verbose --field --json' ;;
    'config') echo '--json' ;;
    'names') echo '--json' ;;
    '') echo '--execute --help --version --store --namespace --table --lease --wait --no-hints --timeout --user --password-file --api-key-file --bearer-file --api-key-command --bearer-command --aws --aws-region --ca --cert --key --insecure --proxy --unix-socket --sniff --profile --config --progress --log-level --log-format --trace-http --metrics-file --verbose' ;;
  esac
}

# What follows an option: words, or a kind of names in capitals; nothing: it takes no value.
_mortise_value() { # _mortise_value COMMAND OPTION
  case "$1 $2" in
    'run --allow') echo 'NONE' ;;
    'run --memory') echo 'NONE' ;;
    'run --instructions') echo 'NONE' ;;
    'run --time') echo 'NONE' ;;
    'lock --on-orphan') echo 'fail resume rollback' ;;
    'lock --grace') echo 'NONE' ;;
    'lock --fence-file') echo 'FILE' ;;
    'rename --field') echo 'NONE' ;;
    'rename --strategy') echo 'client server auto' ;;
    'rename --wait-for-writes') echo 'NONE' ;;
    'rename --max-rejected') echo 'NONE' ;;
    'rename --on-orphan') echo 'fail resume rollback' ;;
    'rename --rate') echo 'NONE' ;;
    'rename --batch') echo 'NONE' ;;
    'rename --concurrency') echo 'NONE' ;;
    'rename --plan') echo 'FILE' ;;
    'rename --from-plan') echo 'FILE' ;;
    'migrate --alias') echo 'NONE' ;;
    'migrate --mappings') echo 'FILE' ;;
    'migrate --settings') echo 'FILE' ;;
    'migrate --change') echo 'FILE' ;;
    'migrate --change-back') echo 'FILE' ;;
    'migrate --cutover') echo 'auto manual' ;;
    'migrate --to-store') echo 'NONE' ;;
    'migrate --max-pause') echo 'NONE' ;;
    'migrate --verify') echo 'counts sample full' ;;
    'migrate --max-rejected') echo 'NONE' ;;
    'migrate --lock') echo 'NONE' ;;
    'migrate --id') echo 'NONE' ;;
    'migrate --rate') echo 'NONE' ;;
    'migrate --wait-for-writes') echo 'NONE' ;;
    'job --max-rejected') echo 'NONE' ;;
    'job --wait-for-writes') echo 'NONE' ;;
    'job --others') echo 'NONE' ;;
    'job --on-orphan') echo 'fail resume rollback' ;;
    'job --rate') echo 'NONE' ;;
    'job --batch') echo 'NONE' ;;
    'job --concurrency') echo 'NONE' ;;
    'job --plan') echo 'FILE' ;;
    'job --from-plan') echo 'FILE' ;;
    'jobs --state') echo 'stands running stopped done undoing undone removed damaged' ;;
    'jobs --index') echo 'NONE' ;;
    'jobs --since') echo 'NONE' ;;
    'jobs --rate') echo 'NONE' ;;
    'jobs --batch') echo 'NONE' ;;
    'jobs --concurrency') echo 'NONE' ;;
    'jobs --for') echo 'NONE' ;;
    'jobs --max-rejected') echo 'NONE' ;;
    'jobs --older') echo 'NONE' ;;
    'jobs --wait-for-writes') echo 'NONE' ;;
    'jobs --others') echo 'NONE' ;;
    'up --to') echo 'NONE' ;;
    'up --baseline') echo 'NONE' ;;
    'init --stripes') echo 'NONE' ;;
    'locks --who') echo 'PATH' ;;
    'locks --limit') echo 'NONE' ;;
    'locks --hold') echo 'NONE' ;;
    'locks --session') echo 'NONE' ;;
    'sessions --limit') echo 'NONE' ;;
    'watch --interval') echo 'NONE' ;;
    'watch --count') echo 'NONE' ;;
    'board --listen') echo 'NONE' ;;
    'board --interval') echo 'NONE' ;;
    'board --token-file') echo 'FILE' ;;
    'board --for') echo 'NONE' ;;
    'get --fields') echo 'NONE' ;;
    'get --routing') echo 'NONE' ;;
    'search --fields') echo 'NONE' ;;
    'search --sort') echo 'NONE' ;;
    'search --limit') echo 'NONE' ;;
    'put --if') echo 'NONE' ;;
    'put --field') echo 'NONE' ;;
    'put --routing') echo 'NONE' ;;
    'put --on-orphan') echo 'fail resume rollback' ;;
    'edit --field') echo 'NONE' ;;
    'edit --routing') echo 'NONE' ;;
    'edit --on-orphan') echo 'fail resume rollback' ;;
    'doctor --field') echo 'NONE' ;;
    *' --execute') echo 'NONE' ;;
    *' -e') echo 'NONE' ;;
    *' --store') echo 'NONE' ;;
    *' --namespace') echo 'NONE' ;;
    *' --table') echo 'NONE' ;;
    *' --lease') echo 'NONE' ;;
    *' --wait') echo 'NONE' ;;
    *' --timeout') echo 'NONE' ;;
    *' --user') echo 'NONE' ;;
    *' --password-file') echo 'FILE' ;;
    *' --api-key-file') echo 'FILE' ;;
    *' --bearer-file') echo 'FILE' ;;
    *' --api-key-command') echo 'NONE' ;;
    *' --bearer-command') echo 'NONE' ;;
    *' --aws-region') echo 'NONE' ;;
    *' --ca') echo 'FILE' ;;
    *' --cert') echo 'FILE' ;;
    *' --key') echo 'FILE' ;;
    *' --proxy') echo 'NONE' ;;
    *' --unix-socket') echo 'FILE' ;;
    *' --profile') echo 'NONE' ;;
    *' --config') echo 'FILE' ;;
    *' --progress') echo 'auto plain json none' ;;
    *' --log-level') echo 'none warning info debug' ;;
    *' --log-format') echo 'text json' ;;
    *' --trace-http') echo 'FILE' ;;
    *' --metrics-file') echo 'FILE' ;;
  esac
}

# What each argument may be, with slashes between them.
_mortise_takes() { # _mortise_takes COMMAND
  case $1 in
    run) echo 'FILE' ;;
    lock) echo 'PATH' ;;
    rename) echo 'INDEX/PATH/PATH' ;;
    migrate) echo 'INDEX/INDEX' ;;
    job) echo 'run/FILE' ;;
    jobs) echo 'ls show wait watch report plan pause resume throttle cancel rollback accept cutover finish purge/JOB' ;;
    up) echo 'FOLDER' ;;
    locks) echo 'tree break PATH/PATH' ;;
    sessions) echo 'ls show end/SESSION' ;;
    get) echo 'INDEX/' ;;
    search) echo 'INDEX/' ;;
    count) echo 'INDEX/' ;;
    put) echo 'INDEX//FILE' ;;
    edit) echo 'INDEX/' ;;
    doctor) echo 'INDEX' ;;
    names) echo 'index job path session/' ;;
    help) echo 'COMMAND errors status store query time modes' ;;
  esac
}

# One candidate a line, of words and kinds of names.
_mortise_candidates() { # _mortise_candidates "WORD KIND ..." BEGINNING [STORE'S OPTIONS]
  local each
  for each in $1; do
    case $each in
      FILE) compgen -f -- "$2" ;;
      FOLDER) compgen -d -- "$2" ;;
      COMMAND) compgen -W 'run repl lock rename migrate job jobs up init locks sessions watch board get search count put edit doctor config names help version' -- "$2" ;;
      INDEX | JOB | PATH | SESSION) mortise "${@:3}" names "${each,,}" "$2" 2>/dev/null ;;
      NONE) ;;
      *) [[ $each != "$2"* ]] || echo "$each" ;;
    esac
  done
}

_mortise() {
  local line=${COMP_LINE:0:COMP_POINT} words=() command='' at=0 i value takes=() wanted='' store=() found=()
  read -ra words <<<"$line"
  [[ $line != *[[:space:]] ]] || words+=('')
  local current=${words[-1]} last=$((${#words[@]} - 1))
  for ((i = 1; i < last; i++)); do
    value=
    case ${words[i]} in
      --) at=-1; break ;;
      -*)
        value=$(_mortise_value "$command" "${words[i]}")
        if [ -n "$value" ]; then
          case " --store --table --namespace --profile --config " in *" ${words[i]} "*) store+=("${words[i]}" "${words[i + 1]}") ;; esac
          i=$((i + 1))
          [ $i != $last ] || wanted=$value
        fi
        ;;
      *) if [ -z "$command" ]; then command=${words[i]}; else at=$((at + 1)); fi ;;
    esac
  done
  if [ -n "$wanted" ] || [ $at = -1 ]; then
    wanted=${wanted:-FILE}
  elif [[ $current == -* ]]; then
    wanted="$(_mortise_flags "$command") $(_mortise_flags '')"
  elif [ -z "$command" ]; then
    wanted='COMMAND FILE'
  else
    IFS=/ read -ra takes <<<"$(_mortise_takes "$command")"
    [ "$at" -lt ${#takes[@]} ] || at=$((${#takes[@]} - 1))
    [ "$at" -lt 0 ] || wanted=${takes[at]}
    case $command in *.lua) wanted=FILE ;; esac
  fi
  mapfile -t found < <(_mortise_candidates "$wanted" "$current" "${store[@]}")
  COMPREPLY=()
  for value in "${found[@]}"; do COMPREPLY+=("$(printf %q "$value")"); done
  [[ $wanted != *FILE* && $wanted != FOLDER ]] || compopt -o filenames 2>/dev/null
}

complete -F _mortise mortise
