/** The completion script for fish: one line for each possible completion. */
import type { CompletedCommand, CompletedOption, Values } from './tree.ts'

export function fishScript(commands: readonly CompletedCommand[]): string {
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
  const begin = `complete -c parley -n ${quoted(here)}`
  return [
    ...commands.map(({ name, description }) => `${begin} -a ${name} -d ${quoted(description)}`),
    ...options.map((option) => `${begin}${optionSpec(option)}`),
    ...taken.filter(({ kind }) => kind !== 'free').map((values) => `${begin}${valueSpec(values)}`),
  ]
}

/** The command's words have been typed, and none of its subcommands. */
function conditionOf(path: string, under: readonly string[]): string {
  const [, ...words] = path.split(' ')
  const typed = words.map((word) => `__fish_seen_subcommand_from ${word}`)
  const notTyped = under.length === 0 ? [] : [`not __fish_seen_subcommand_from ${under.join(' ')}`]
  return [...typed, ...notTyped].join('; and ')
}

function optionSpec({ flags, description, values }: CompletedOption): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`))
  return `${names.join('')} -d ${quoted(description)}${values ? ` -r${valueSpec(values)}` : ''}`
}

function valueSpec(values: Values): string {
  if (values.kind === 'files') return ' -F'
  return values.kind === 'free' ? '' : ` -a ${quoted(values.words.join(' '))}`
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
