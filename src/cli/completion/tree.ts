/** What can be completed: the program's commands, reduced to names, options and known values. */
import type { Argument, Command, Option } from 'commander'

export interface CompletedCommand {
  /** The full command, for example `parley keys create`. */
  readonly path: string
  readonly description: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CompletedOption[]
  /** The values of the arguments, in order. The last entry applies to all further arguments. */
  readonly arguments: readonly Values[]
}

export interface CompletedOption {
  /** For example `--json`, and a short form if there is one. */
  readonly flags: readonly string[]
  readonly description: string
  /** Null if the option takes no value. */
  readonly values: Values | null
}

export type Values =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'files' }
  | { readonly kind: 'free' }

/** Returns the command and all of its subcommands, outermost first. */
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
