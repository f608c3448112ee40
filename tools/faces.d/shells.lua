-- Completion for shells.
local described = require "described"

local shells = {}

-- Options that say which store is meant, which are passed on to `mortise names`.
local place = "--store --table --namespace --profile --config"

local function each_with_rows(see)
  for _, command in ipairs(described.commands) do see(command.name, command.rows) end
  see("", described.global_rows)
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- "locks) say '--json --all' ;;" for each command, by what `text(name, rows)` gives.
local function cases(text)
  local lines = {}
  each_with_rows(function(name, rows)
    if #rows > 0 then lines[#lines + 1] = ("    %s) echo %s ;;"):format(quoted(name), quoted(text(rows))) end
  end)
  return table.concat(lines, "\n")
end

local function flags_text(rows)
  local list = {}
  for _, row in ipairs(rows) do
    list[#list + 1] = row.flag
  end
  return table.concat(list, " ")
end

local function value_cases()
  local lines = {}
  each_with_rows(function(name, rows)
    for _, row in ipairs(rows) do
      local value = described.value_of(row)
      if value then
        local function case(flag)
          lines[#lines + 1] = ("    %s) echo %s ;;"):format(
            name == "" and "*" .. quoted(" " .. flag) or quoted(name .. " " .. flag), quoted(value))
        end
        case(row.flag)
        if row.short then case(row.short) end
      end
    end
  end)
  return table.concat(lines, "\n")
end

local function takes_cases()
  local lines = {}
  for _, command in ipairs(described.commands) do
    if #command.takes > 0 then
      lines[#lines + 1] = ("    %s) echo %s ;;"):format(command.name, quoted(table.concat(command.takes, "/")))
    end
  end
  return table.concat(lines, "\n")
end

local function names_text()
  local list = {}
  for i, command in ipairs(described.commands) do list[i] = command.name end
  return table.concat(list, " ")
end

local function filled(text, parts)
  return (text:gsub("@([A-Z]+)@", function(name) return assert(parts[name], name) end))
end

-- The functions that bash and zsh have in common.
local function tables()
  return filled([=[
# What follows an option: words, or a kind of names in capitals; nothing: it takes no value.
_mortise_value() { # _mortise_value COMMAND OPTION
  case "$1 $2" in
@VALUES@
  esac
}

# What each argument may be, with slashes between them.
_mortise_takes() { # _mortise_takes COMMAND
  case $1 in
@TAKES@
  esac
}]=], {VALUES = value_cases(), TAKES = takes_cases()})
end

function shells.bash()
  return filled([=[
# bash completion of mortise. @NOTE@
# shellcheck shell=bash

_mortise_flags() { # _mortise_flags COMMAND
  case $1 in
@FLAGS@
  esac
}

@TABLES@

# One candidate a line, of words and kinds of names.
_mortise_candidates() { # _mortise_candidates "WORD KIND ..." BEGINNING [STORE'S OPTIONS]
  local each
  for each in $1; do
    case $each in
      FILE) compgen -f -- "$2" ;;
      FOLDER) compgen -d -- "$2" ;;
      COMMAND) compgen -W '@NAMES@' -- "$2" ;;
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
          case " @PLACE@ " in *" ${words[i]} "*) store+=("${words[i]}" "${words[i + 1]}") ;; esac
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
]=], {
    NOTE = described.note, FLAGS = cases(flags_text), TABLES = tables(),
    NAMES = names_text(), PLACE = place,
  })
end

-- ---- zsh -----------------------------------------------------------------------------------------

-- "--json:print JSON", for _describe
local function zsh_item(name, text) return quoted(name:gsub(":", "\\:") .. ":" .. text) end

local function zsh_flags()
  local lines = {}
  each_with_rows(function(name, rows)
    if #rows == 0 then return end
    lines[#lines + 1] = ("    %s) list=("):format(quoted(name))
    for _, row in ipairs(rows) do lines[#lines + 1] = "      " .. zsh_item(row.flag, row.help) end
    lines[#lines + 1] = "    ) ;;"
  end)
  return table.concat(lines, "\n")
end

local function zsh_commands()
  local lines = {}
  for i, command in ipairs(described.commands) do
    lines[i] = "      " .. zsh_item(command.name, command.summary)
  end
  return table.concat(lines, "\n")
end

function shells.zsh()
  return filled([=[
#compdef mortise
# zsh completion of mortise. @NOTE@

_mortise_flags() { # _mortise_flags COMMAND
  local -a list
  case $1 in
@FLAGS@
  esac
  (( $#list )) && _describe -o option list
}

@TABLES@

_mortise_candidates() { # _mortise_candidates "WORD KIND ..." [STORE'S OPTIONS]
  local each
  local -a list plain
  for each in ${=1}; do
    case $each in
      FILE) _files ;;
      FOLDER) _files -/ ;;
      COMMAND)
        list=(
@COMMANDS@
        )
        _describe command list ;;
      INDEX | JOB | PATH | SESSION)
        list=(${(f)"$(mortise "${@:2}" names ${(L)each} "${(Q)PREFIX}" 2>/dev/null)"})
        (( $#list )) && compadd -a list ;;
      NONE) ;;
      *) plain+=($each) ;;
    esac
  done
  (( $#plain )) && compadd -a plain
}

_mortise() {
  local command='' wanted='' value i at=0
  local -a takes store
  for ((i = 2; i < CURRENT; i++)); do
    case ${words[i]} in
      --) at=-1; break ;;
      -*)
        value=$(_mortise_value "$command" "${words[i]}")
        if [[ -n $value ]]; then
          case " @PLACE@ " in *" ${words[i]} "*) store+=("${words[i]}" "${words[i + 1]}") ;; esac
          ((i++))
          ((i != CURRENT)) || wanted=$value
        fi
        ;;
      *) if [[ -z $command ]]; then command=${words[i]}; else ((at++)); fi ;;
    esac
  done
  if [[ -n $wanted || $at == -1 ]]; then
    _mortise_candidates "${wanted:-FILE}" "${store[@]}"
  elif [[ ${words[CURRENT]} == -* ]]; then
    _mortise_flags "$command"
    [[ -z $command ]] || _mortise_flags ''
  elif [[ -z $command ]]; then
    _mortise_candidates 'COMMAND FILE'
  elif [[ $command == *.lua ]]; then
    _files
  else
    takes=("${(@s:/:)$(_mortise_takes "$command")}")
    ((at < $#takes)) || at=$(($#takes - 1))
    ((at < 0)) || _mortise_candidates "${takes[at + 1]}" "${store[@]}"
  fi
}

_mortise "$@"
]=], {
    NOTE = described.note, FLAGS = zsh_flags(), TABLES = tables(),
    COMMANDS = zsh_commands(), PLACE = place,
  })
end

-- ---- fish ----------------------------------------------------------------------------------------

local function fish_quoted(text) return "'" .. text:gsub("[\\']", "\\%0") .. "'" end

local fish_kinds = {
  FILE = "(__fish_complete_path (commandline -ct))", FOLDER = "(__fish_complete_directories (commandline -ct))",
  INDEX = "(__mortise_names index)", JOB = "(__mortise_names job)", PATH = "(__mortise_names path)",
  SESSION = "(__mortise_names session)", NONE = "", COMMAND = "(__mortise_commands)",
}

local function fish_words(text)
  local list = {}
  for each in text:gmatch "[^ ]+" do list[#list + 1] = fish_kinds[each] or each end
  return fish_quoted(table.concat(list, " "))
end

local function fish_option(row, condition)
  local parts = {"complete -c mortise"}
  if condition then parts[#parts + 1] = "-n " .. fish_quoted(condition) end
  parts[#parts + 1] = "-l " .. row.flag:sub(3)
  if row.short then parts[#parts + 1] = "-s " .. row.short:sub(2) end
  local value = described.value_of(row)
  if value then parts[#parts + 1] = "-x -a " .. fish_words(value) end
  parts[#parts + 1] = "-d " .. fish_quoted(row.help)
  return table.concat(parts, " ")
end

local function fish_lines()
  local lines = {}
  for _, row in ipairs(described.global_rows) do lines[#lines + 1] = fish_option(row) end
  for _, command in ipairs(described.commands) do
    lines[#lines + 1] = ("complete -c mortise -n '__mortise_at 0' -a %s -d %s"):format(command.name,
      fish_quoted(command.summary))
  end
  lines[#lines + 1] = "complete -c mortise -n '__mortise_at 0' -a '(__fish_complete_suffix .lua)'"
  for _, command in ipairs(described.commands) do
    for _, row in ipairs(command.rows) do
      lines[#lines + 1] = fish_option(row, "__mortise_runs " .. command.name)
    end
    for i, takes in ipairs(command.takes) do
      if takes ~= "" then
        lines[#lines + 1] = ("complete -c mortise -n '__mortise_runs %s; and __mortise_at %d%s' -a %s"):format(
          command.name, i, i == #command.takes and " more" or "", fish_words(takes))
      end
    end
  end
  return table.concat(lines, "\n")
end

local function valued_flags()
  local list = {}
  each_with_rows(function(_, rows)
    for _, row in ipairs(rows) do
      if described.value_of(row) then
        list[#list + 1] = row.flag
        list[#list + 1] = row.short
      end
    end
  end)
  table.sort(list)
  local seen, once = {}, {}
  for _, flag in ipairs(list) do
    if not seen[flag] then once[#once + 1] = flag end
    seen[flag] = true
  end
  return table.concat(once, " ")
end

function shells.fish()
  return filled([=[
# fish completion of mortise. @NOTE@

# The words that are no options, nor their values; behind them, with the word "store", those that name the store.
function __mortise_words
    set -l skip no
    for word in (commandline -opc)[2..-1]
        if test $skip != no
            test "$argv[1]" = store; and contains -- $skip @PLACE@; and echo $skip; and echo $word
            set skip no
        else if contains -- $word @VALUED@
            set skip $word
        else if not string match -q -- '-*' $word; and test "$argv[1]" != store
            echo $word
        end
    end
end

# Is the argument of this number (the command is 0), or, with "more", a later one, being typed?
function __mortise_at
    set -l n (count (__mortise_words))
    test $n -eq $argv[1]; or test "$argv[2]" = more -a $n -gt $argv[1]
end

function __mortise_runs
    set -l words (__mortise_words)
    test "$words[1]" = $argv[1]
end

function __mortise_names
    mortise (__mortise_words store) names $argv[1] (commandline -ct) 2>/dev/null
end

function __mortise_commands
    printf '%s\n' @NAMES@
end

complete -c mortise -f
@LINES@
]=], {NOTE = described.note, LINES = fish_lines(), VALUED = valued_flags(), NAMES = names_text(), PLACE = place})
end

return shells
