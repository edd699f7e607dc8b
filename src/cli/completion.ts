/** `parley completion` prints a script with which a shell completes commands, options and values. */
import { Argument, type Command, type Option } from 'commander'
import { printLine } from './input-output.ts'

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }
type Shell = keyof typeof SCRIPTS

const HELP = `
Examples:
  source <(parley completion bash)            in ~/.bashrc
  source <(parley completion zsh)             in ~/.zshrc, after compinit
  parley completion fish > ~/.config/fish/completions/parley.fish`

export function addCompletion(command: Command, program: Command): void {
  command
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText('after', HELP)
    .action((shell: Shell) => printLine(SCRIPTS[shell](completedCommands(program)).trimEnd()))
}

interface CompletedCommand {
  /** Contains the full command, such as `parley keys create`. */
  readonly path: string
  readonly description: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CompletedOption[]
  /** The last entry applies to all further arguments. */
  readonly arguments: readonly Values[]
}

interface CompletedOption {
  /** Contains the long form, such as `--json`, and the short form if there is one. */
  readonly flags: readonly string[]
  readonly description: string
  /** `values` is null if the option takes no value. */
  readonly values: Values | null
}

export type Values =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'files' }
  | { readonly kind: 'free' }

/** Each command comes before its subcommands. */
function completedCommands(command: Command, before: readonly string[] = []): CompletedCommand[] {
  const words = [...before, command.name()]
  const help = command.createHelp()
  const under = help.visibleCommands(command)
  return [
    {
      path: words.join(' '),
      description: command.description(),
      commands: under.map((one) => ({ name: one.name(), description: one.description() })),
      options: help.visibleOptions(command).map(optionOf),
      arguments: command.registeredArguments.map(valuesOf),
    },
    ...under.filter((one) => one.name() !== 'help').flatMap((one) => completedCommands(one, words)),
  ]
}

function optionOf(option: Option): CompletedOption {
  const flags = [option.short, option.long].filter((flag) => flag !== undefined)
  const takesValue = option.required || option.optional
  return { flags, description: option.description, values: takesValue ? valuesOf(option) : null }
}

function valuesOf(given: Option | Argument): Values {
  if (given.argChoices) return { kind: 'words', words: given.argChoices }
  const name = 'flags' in given ? given.flags : given.name()
  return { kind: /\bfile\b/.test(name) ? 'files' : 'free' }
}

/** The script must work in bash 3.2, which macOS ships. */
function bashScript(commands: readonly CompletedCommand[]): string {
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

/** The script sets IFS to a line end, because file names may contain spaces. */
function list(words: readonly string[]): string {
  return `$'${words.join('\\n')}'`
}

function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef parley
# zsh completion of parley: source <(parley completion zsh), after compinit
${commands.map(functionOf).join('\n')}
compdef _parley parley
`
}

function functionOf(command: CompletedCommand): string {
  const { path, commands, options, arguments: taken } = command
  const specs = options.flatMap(optionSpecs)
  if (commands.length === 0) {
    const positions = taken.map((values, position) => {
      const isLast = position === taken.length - 1
      return quotedForZsh(`${isLast ? '*' : position + 1}:argument:${actionOf(values)}`)
    })
    return `${nameOf(path)}() {\n  _arguments ${[...specs, ...positions].join(' ')}\n}`
  }
  const listed = commands.map(({ name, description }) => quotedForZsh(`${name}:${description}`))
  const cases = commands
    .filter(({ name }) => name !== 'help')
    .map(({ name }) => `    ${name}) ${nameOf(`${path} ${name}`)} ;;`)
  return `${nameOf(path)}() {
  local state line
  _arguments -C ${[...specs, quotedForZsh('1: :->command'), quotedForZsh('*:: :->rest')].join(' ')}
  case $state in
  command) local -a commands=(${listed.join(' ')}); _describe command commands ;;
  rest)
    case $line[1] in
${cases.join('\n')}
    esac ;;
  esac
}`
}

function optionSpecs({ flags, description, values }: CompletedOption): string[] {
  const text = description.replace(/[[\]:\\]/g, (character) => `\\${character}`)
  return flags.map((flag) => quotedForZsh(`${flag}[${text}]${values ? `:value:${actionOf(values)}` : ''}`))
}

function actionOf(values: Values): string {
  if (values.kind === 'files') return '_files'
  return values.kind === 'free' ? ' ' : `(${values.words.join(' ')})`
}

function nameOf(path: string): string {
  return `_${path.replaceAll(/[ -]/g, '_')}`
}

function quotedForZsh(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function fishScript(commands: readonly CompletedCommand[]): string {
  return `# fish completion of parley: parley completion fish > ~/.config/fish/completions/parley.fish
complete -c parley -f
${commands.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, commands, options, arguments: taken }: CompletedCommand): string[] {
  const here = conditionOf(
    path,
    commands.map(({ name }) => name),
  )
  const begin = `complete -c parley -n ${quotedForFish(here)}`
  return [
    ...commands.map(({ name, description }) => `${begin} -a ${name} -d ${quotedForFish(description)}`),
    ...options.map((option) => `${begin}${optionSpec(option)}`),
    ...taken.filter(({ kind }) => kind !== 'free').map((values) => `${begin}${valueSpec(values)}`),
  ]
}

/** The condition is true when the words of the command have been typed, but none of its subcommands. */
function conditionOf(path: string, under: readonly string[]): string {
  const [, ...words] = path.split(' ')
  const typed = words.map((word) => `__fish_seen_subcommand_from ${word}`)
  const notTyped = under.length === 0 ? [] : [`not __fish_seen_subcommand_from ${under.join(' ')}`]
  return [...typed, ...notTyped].join('; and ')
}

function optionSpec({ flags, description, values }: CompletedOption): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`))
  return `${names.join('')} -d ${quotedForFish(description)}${values ? ` -r${valueSpec(values)}` : ''}`
}

function valueSpec(values: Values): string {
  if (values.kind === 'files') return ' -F'
  return values.kind === 'free' ? '' : ` -a ${quotedForFish(values.words.join(' '))}`
}

function quotedForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
