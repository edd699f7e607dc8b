/**
 * Checks names, types and ranges of settings against the table, and reports every problem. It knows only the keywords that the
 * table uses. Compiling the table with Ajv would take a fifth of a second.
 */
import { isObject, type JsonObject } from '../json-object.ts'
import type { Schema } from '../typed-schema.ts'
import { didYouMean } from './environment.ts'
import { DEFAULTS, type Settings, settingsSchema, UPSTREAM_DEFAULTS } from './settings.ts'

export interface ShapeFindings {
  /** Each sentence begins with the path of the setting. */
  readonly problems: readonly string[]
  /** Each wrong value is replaced by a valid one, so that later checks can report further problems. */
  readonly usable: Settings
  /** Returns whether a later problem may be only a consequence of the problems here. */
  readonly follows: (problem: string) => boolean
}

/** The operator chooses the names of the entries of these settings, and other settings refer to them. */
const NAMED: ReadonlySet<string> = new Set(['upstreams', 'models', 'tiers'])

export function checkShape(settings: Settings): ShapeFindings {
  const problems = new Set<string>()
  const wrong = new Set<string>()
  const usable: Record<string, unknown> = { ...settings }
  for (const found of shapeProblems(settingsSchema, settings)) {
    const { names, problem } = isTierWithoutBase(found) ? withoutBase(found) : found
    const meant = problem === UNKNOWN ? didYouMean(names.at(-1) ?? '', siblingsOf(names)) : ''
    problems.add(`${names.join('.') || 'the configuration'}: ${problem}${meant}`)
    replaceWrong(usable, names)
    const [section = '', entry] = names
    if (entry === undefined && NAMED.has(section)) for (const one of NAMED) wrong.add(one)
    else wrong.add(names.slice(0, 2).join('.'))
  }
  return {
    problems: [...problems],
    usable: usable as Settings,
    follows: (problem) =>
      [...wrong].some((path) => /^[.:]/.test(problem.slice(path.length)) && problem.startsWith(path)),
  }
}

/** Returns whether a custom tier lacks `based_on`. The name of the tier may then be a misspelled default tier. */
function isTierWithoutBase({ names: [section, , field], problem }: ShapeProblem): boolean {
  return section === 'tiers' && field === 'based_on' && problem === MISSING
}

function withoutBase({ names }: ShapeProblem): ShapeProblem {
  const [, tier = ''] = names
  const meant = didYouMean(tier, Object.keys(DEFAULTS.tiers))
  const hint = 'a tier of your own needs based_on, the name of the tier from which it takes other values'
  return { names: names.slice(0, 2), problem: `${UNKNOWN}${meant} (${hint})` }
}

function replaceWrong(settings: Record<string, unknown>, [section = '', entry]: readonly string[]): void {
  const defaults: unknown = Object.hasOwn(DEFAULTS, section) ? DEFAULTS[section as keyof Settings] : undefined
  const current = settings[section]
  if (entry === undefined || !isObject(current)) settings[section] = defaults
  else settings[section] = { ...current, [entry]: placeholder(section, entry, defaults) }
  if (section === 'tiers' && entry !== undefined && isObject(defaults) && !Object.hasOwn(defaults, entry)) {
    settings[section] = Object.fromEntries(
      Object.entries(settings[section] as object).filter(([name]) => name !== entry),
    )
  }
}

function placeholder(section: string, entry: string, defaults: unknown): unknown {
  if (section === 'upstreams') return { ...UPSTREAM_DEFAULTS, api_key_env: null }
  // A model must have the field `targets`, because an `auto` list may only name such models.
  if (section === 'models') return { targets: [] }
  return isObject(defaults) ? defaults[entry] : undefined
}

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>
  readonly items?: SchemaNode
}

/** Returns the names that are valid at the level of an unknown setting. */
function siblingsOf(names: readonly string[]): readonly string[] {
  let node: SchemaNode | undefined = settingsSchema as SchemaNode
  for (const name of names.slice(0, -1)) {
    node = node?.properties?.[name] ?? Object.values(node?.patternProperties ?? {})[0] ?? node?.items
  }
  return Object.keys(node?.properties ?? {})
}

interface Rules {
  readonly type?: string
  readonly const?: unknown
  readonly anyOf?: readonly Rules[]
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly minLength?: number
  readonly minItems?: number
  readonly items?: Rules
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Rules>>
  readonly patternProperties?: Readonly<Record<string, Rules>>
  readonly additionalProperties?: false
}

interface ShapeProblem {
  /** The path to the setting is a list, because names may contain dots. */
  readonly names: readonly string[]
  readonly problem: string
}

const UNKNOWN = 'unknown setting'
const MISSING = 'is required'

export function shapeProblems(schema: Schema, value: unknown): readonly ShapeProblem[] {
  return problemsAt([], schema as Rules, value)
}

function problemsAt(names: readonly string[], rules: Rules, value: unknown): readonly ShapeProblem[] {
  const named = (problem: string): ShapeProblem => ({ names, problem })
  if (rules.anyOf) return noneOf(names, rules.anyOf, value)
  if (rules.type !== undefined && !hasType(rules.type, value)) return [named(`must be ${rules.type}`)]
  if ('const' in rules && value !== rules.const) return [named(`must be ${JSON.stringify(rules.const)}`)]
  if (typeof value === 'number') return numberProblems(rules, value).map(named)
  if (typeof value === 'string') {
    return value.length < (rules.minLength ?? 0)
      ? [named(`must not have fewer than ${rules.minLength} characters`)]
      : []
  }
  if (Array.isArray(value)) {
    const few =
      value.length < (rules.minItems ?? 0) ? [named(`must not have fewer than ${rules.minItems} items`)] : []
    const { items } = rules
    return items
      ? [...few, ...value.flatMap((item, at) => problemsAt([...names, String(at)], items, item))]
      : few
  }
  return isObject(value) ? objectProblems(names, rules, value) : []
}

function hasType(type: string, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  // JSON has no infinite numbers, but `1e999` is parsed as one.
  return typeof value === type && (type !== 'number' || Number.isFinite(value))
}

/** Returns what each alternative requires; an empty list if the value satisfies one of them. */
function noneOf(names: readonly string[], anyOf: readonly Rules[], value: unknown): readonly ShapeProblem[] {
  const problems: ShapeProblem[] = []
  for (const one of anyOf) {
    const found = problemsAt(names, one, value)
    if (found.length === 0) return []
    problems.push(...found)
  }
  const values = anyOf.map((one) => one.const)
  if (!values.every((one) => typeof one === 'string')) return problems
  const meant = typeof value === 'string' ? didYouMean(value, values) : ''
  return [{ names, problem: `must be one of ${values.join(', ')}${meant}` }]
}

function numberProblems({ minimum, maximum, exclusiveMinimum }: Rules, value: number): string[] {
  return [
    ...(minimum !== undefined && value < minimum ? [`must be >= ${minimum}`] : []),
    ...(maximum !== undefined && value > maximum ? [`must be <= ${maximum}`] : []),
    ...(exclusiveMinimum !== undefined && value <= exclusiveMinimum ? [`must be > ${exclusiveMinimum}`] : []),
  ]
}

function objectProblems(
  names: readonly string[],
  { required = [], properties = {}, patternProperties = {}, additionalProperties }: Rules,
  value: JsonObject,
): readonly ShapeProblem[] {
  const missing = required
    .filter((name) => !Object.hasOwn(value, name))
    .map((name) => ({ names: [...names, name], problem: MISSING }))
  const patterns = Object.entries(patternProperties).map(
    ([pattern, rules]) => [new RegExp(pattern, 'u'), rules] as const,
  )
  const inner = Object.entries(value).flatMap(([name, member]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined
    const applying = own ? [own] : patterns.flatMap(([pattern, rules]) => (pattern.test(name) ? [rules] : []))
    const at = [...names, name]
    if (applying.length === 0 && additionalProperties === false) return [{ names: at, problem: UNKNOWN }]
    return applying.flatMap((rules) => problemsAt(at, rules, member))
  })
  return [...missing, ...inner]
}
