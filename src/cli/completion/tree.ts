/** What there is to complete: commander's commands, reduced to names, options and the values that are known. */
import type { Argument, Command, Option } from 'commander'

export interface CompletedCommand {
  /** The words that lead here, such as `parley keys create`. */
  readonly path: string
  readonly description: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CompletedOption[]
  /** Of the arguments, in order; the last stands for all further ones. */
  readonly arguments: readonly Values[]
}

export interface CompletedOption {
  /** `--json`, and a short form where there is one. */
  readonly flags: readonly string[]
  readonly description: string
  /** Null where it takes none. */
  readonly values: Values | null
}

export type Values =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'files' }
  | { readonly kind: 'free' }

/** The command and all under it, outermost first. */
export function completedCommands(command: Command, before: readonly string[] = []): CompletedCommand[] {
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
