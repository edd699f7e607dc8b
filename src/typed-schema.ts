/**
 * Writes JSON Schemas of what Parley accepts and returns, so that the compiler knows the types of their values. A library for
 * this would take a fifth of the server's start time to load.
 *
 *     const point = Type.Object({ x: Type.Number(), label: Type.Optional(Type.String({ maxLength: 80 })) })
 *     type Point = Static<typeof point>   // { x: number; label?: string }
 */

/** Only the compiler uses this symbol. */
declare const VALUE: unique symbol

/** The values of the schema have the type T. Converted to JSON, the object is a JSON Schema. */
export interface Schema<T = unknown> {
  readonly [VALUE]?: () => T
  readonly [keyword: string]: unknown
}

export type Static<S> = S extends { readonly [VALUE]?: () => infer T } ? T : never

type Keywords = Readonly<Record<string, unknown>>
type Properties = Readonly<Record<string, Schema>>

/** Marks the schema of a property that may be absent. JSON omits symbols, so clients do not see the mark. */
const OPTIONAL = Symbol('optional')

interface Optional {
  readonly [OPTIONAL]: true
}

type OptionalNames<P> = { [K in keyof P]: P[K] extends Optional ? K : never }[keyof P]
type Flat<T> = { [K in keyof T]: T[K] }
type ObjectOf<P> = Flat<
  { -readonly [K in Exclude<keyof P, OptionalNames<P>>]: Static<P[K]> } & {
    -readonly [K in OptionalNames<P>]?: Static<P[K]>
  }
>

interface ObjectSchema<P> extends Schema<ObjectOf<P>> {
  readonly type: 'object'
  readonly required?: readonly string[]
  readonly properties: P
}

interface RecordSchema<T> extends Schema<Record<string, T>> {
  readonly patternProperties: Readonly<Record<string, Schema<T>>>
}

interface EnumSchema<T> extends Schema<T> {
  readonly enum: readonly T[]
}

export const Type = {
  String: (keywords: Keywords = {}): Schema<string> => ({ type: 'string', ...keywords }),
  Number: (keywords: Keywords = {}): Schema<number> => ({ type: 'number', ...keywords }),
  Integer: (keywords: Keywords = {}): Schema<number> => ({ type: 'integer', ...keywords }),
  Boolean: (keywords: Keywords = {}): Schema<boolean> => ({ type: 'boolean', ...keywords }),
  Null: (keywords: Keywords = {}): Schema<null> => ({ type: 'null', ...keywords }),
  Unknown: (keywords: Keywords = {}): Schema => ({ ...keywords }),
  Literal: <const T extends string | boolean>(value: T): Schema<T> => ({ type: typeof value, const: value }),
  Enum: <const T extends string>(values: readonly T[], keywords: Keywords = {}): EnumSchema<T> => ({
    enum: values,
    ...keywords,
  }),
  Array: <S extends Schema>(items: S, keywords: Keywords = {}): Schema<Static<S>[]> => ({
    type: 'array',
    items,
    ...keywords,
  }),
  Union: <S extends readonly Schema[]>(
    anyOf: readonly [...S],
    keywords: Keywords = {},
  ): Schema<Static<S[number]>> => ({ anyOf, ...keywords }),
  Object: <P extends Properties>(properties: P, keywords: Keywords = {}): ObjectSchema<P> => {
    const required = Object.keys(properties).filter((name) => !(OPTIONAL in (properties[name] ?? {})))
    return { type: 'object', ...(required.length > 0 && { required }), properties, ...keywords }
  },
  /** The object may have any property names, or only those that match the pattern. */
  Record: <T>(
    value: Schema<T>,
    { pattern = '^.*$', ...keywords }: Keywords & { readonly pattern?: string } = {},
  ): RecordSchema<T> => ({ type: 'object', patternProperties: { [pattern]: value }, ...keywords }),
  Optional: <S extends Schema>(schema: S): S & Optional => ({ ...schema, [OPTIONAL]: true }),
} as const
