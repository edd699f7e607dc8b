/** Creates the command of an admin action from the action's declaration. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import type { AnyAction, Described } from '../admin/action.ts'
import { config, type DefaultOptions, examples, numberFrom } from './options.ts'

/**
 * @param parent the command that gets the action's command, such as `parley keys`; for a command of one word, the program
 * itself
 */
export function addActionCommand(parent: Command, action: AnyAction): void {
  if (!action.command) return
  const { name, description, arguments: args = {}, options = {}, required, help } = action.command
  const command = parent.command(name.split(' ').at(-1) ?? name).description(description)
  for (const [field, described] of Object.entries(args)) {
    command.addArgument(argumentOf(described, schemaOf(action, field)))
  }
  const added = Object.entries(options).map(([field, described]) => {
    const option = optionOf(described, schemaOf(action, field))
    command.addOption(required?.includes(field) ? option.makeOptionMandatory() : option)
    return [field, option.attributeName()] as const
  })
  command.option('--json', 'print a JSON object').addOption(config())
  if (help !== undefined) command.addHelpText('after', help)
  command.addHelpText(...examples(...action.command.examples))
  command.action(async () => {
    const given = command.opts<DefaultOptions & Readonly<Record<string, unknown>>>()
    const values = [
      ...Object.keys(args).map((field, at) => [field, command.processedArgs[at]] as const),
      ...added.map(([field, attribute]) => [field, given[attribute]] as const),
    ]
    const input = Object.fromEntries(values.filter(([, value]) => value !== undefined))
    await (await import('./run-action.ts')).runAction(action, input, given)
  })
}

interface FieldSchema {
  readonly type?: string
  readonly enum?: readonly string[]
  readonly anyOf?: readonly { readonly type?: string }[]
  readonly minimum?: number
  readonly maximum?: number
}

/** Returns undefined for a field that belongs to the command itself, or to another action that the command can perform. */
function schemaOf({ fields }: AnyAction, field: string): FieldSchema | undefined {
  return (fields.properties as Readonly<Record<string, FieldSchema>>)[field]
}

const asGiven = (text: string) => text

function argumentOf([form, help, usual]: Described, schema: FieldSchema | undefined): Argument {
  const argument = new Argument(form, help)
  if (usual) return argument.choices(usual).argParser(asGiven)
  return schema?.enum ? argument.choices(schema.enum) : argument
}

function optionOf([flags, help, usual]: Described, schema: FieldSchema | undefined): Option {
  const option = new Option(flags, help)
  if (usual) return option.choices(usual).argParser(asGiven)
  if (schema?.enum) return option.choices(schema.enum)
  if (schema?.anyOf)
    return option.argParser(schema.anyOf.some(({ type }) => type === 'number') ? readAmountCap : readCap)
  if (schema?.type === 'integer')
    return option.argParser(numberFrom(schema.minimum ?? 0, schema.maximum ?? 0))
  if (schema?.type === 'number')
    return option.argParser(numberUpTo(schema.maximum ?? 0, schema.minimum === 0))
  return option
}

function readCap(text: string): number | 'none' | 'tier' {
  if (text === 'none' || text === 'tier') return text
  const cap = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(cap)) {
    throw new InvalidArgumentError('It must be a whole number of at least 0, none, or tier.')
  }
  return cap
}

function readAmountCap(text: string): number | 'none' | 'tier' {
  if (text === 'none' || text === 'tier') return text
  if (!/^\d+(\.\d{1,6})?$/.test(text))
    throw new InvalidArgumentError('It must be an amount of at least 0, such as 12.50, none, or tier.')
  return Number(text)
}

function numberUpTo(most: number, allowsZero: boolean): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (text.trim() !== '' && (number > 0 || (allowsZero && number === 0)) && number <= most) return number
    throw new InvalidArgumentError(
      `It must be a ${allowsZero ? `number from 0 to ${most}` : `positive number of at most ${most}`}.`,
    )
  }
}
