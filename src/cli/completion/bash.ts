/** The completion script for bash. */
import type { CompletedCommand, Values } from './tree.ts'

/** The script walks the words before the cursor to find the command, then offers its options and values. It supports bash 3.2, the version of macOS. */
export function bashScript(commands: readonly CompletedCommand[]): string {
  const steps = commands.flatMap(({ path, commands: under }) => under.map(({ name }) => `${path} ${name}`))
  const valued = commands.flatMap(({ path, options }) =>
    options
      .filter(({ values }) => values)
      .map(({ flags, values }) => ({ words: flags.map((flag) => `${path} ${flag}`), values })),
  )
  const known = valued.flatMap(({ words, values }) =>
    values && values.kind !== 'free' ? [`  ${pattern(words)}) ${offer(values)}; return ;;`] : [],
  )
  return `# bash completion of parley: source <(parley completion bash)
_parley() {
  local IFS=$'\\n' current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local path=parley place=0 index word words
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$path $word" in
    ${pattern(steps)}) path="$path $word" ;;
    ${pattern(valued.flatMap(({ words }) => words))}) ((index++)) ;;
    *' '-*) ;;
    *) ((place++)) ;;
    esac
  done
  case "$path $previous" in
${known.join('\n')}
  ${pattern(valued.flatMap(({ words }) => words))}) return ;;
  esac
  if [[ $current == -* ]]; then
    case "$path" in
${commands.map(flagsOf).join('\n')}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$path" in
${commands.map(positionsOf).join('\n')}
  esac
}
complete -F _parley parley
`
}

function flagsOf({ path, options }: CompletedCommand): string {
  return `    '${path}') words=${list(options.flatMap(({ flags }) => flags))} ;;`
}

/** Completes a word that is not an option: a command, or the next argument. */
function positionsOf({ path, commands, arguments: taken }: CompletedCommand): string {
  if (commands.length > 0) {
    return `  '${path}') ${offer({ kind: 'words', words: commands.map(({ name }) => name) })} ;;`
  }
  const last = taken.length - 1
  const cases = taken.map((values, place) => `${place === last ? '*' : place}) ${offer(values)} ;;`)
  return `  '${path}') ${last < 0 ? ':' : `case $place in ${cases.join(' ')} esac`} ;;`
}

function offer(values: Values): string {
  if (values.kind === 'free') return ':'
  if (values.kind === 'words') return `COMPREPLY=($(compgen -W ${list(values.words)} -- "$current"))`
  return 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current"))'
}

function pattern(words: readonly string[]): string {
  return words.map((word) => `'${word}'`).join('|')
}

/** Separated by line ends, because the script sets IFS to a line end, so that file names may contain spaces. */
function list(words: readonly string[]): string {
  return `$'${words.join('\\n')}'`
}
