/** The completion script for zsh, which uses its function `_arguments`. */
import type { CompletedCommand, CompletedOption, Values } from './tree.ts'

export function zshScript(commands: readonly CompletedCommand[]): string {
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
      return quoted(`${isLast ? '*' : position + 1}:argument:${actionOf(values)}`)
    })
    return `${nameOf(path)}() {\n  _arguments ${[...specs, ...positions].join(' ')}\n}`
  }
  const listed = commands.map(({ name, description }) => quoted(`${name}:${description}`))
  const cases = commands
    .filter(({ name }) => name !== 'help')
    .map(({ name }) => `    ${name}) ${nameOf(`${path} ${name}`)} ;;`)
  return `${nameOf(path)}() {
  local state line
  _arguments -C ${[...specs, quoted('1: :->command'), quoted('*:: :->rest')].join(' ')}
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
  return flags.map((flag) => quoted(`${flag}[${text}]${values ? `:value:${actionOf(values)}` : ''}`))
}

function actionOf(values: Values): string {
  if (values.kind === 'files') return '_files'
  return values.kind === 'free' ? ' ' : `(${values.words.join(' ')})`
}

function nameOf(path: string): string {
  return `_${path.replaceAll(/[ -]/g, '_')}`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
