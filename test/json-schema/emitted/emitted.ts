/** JSON Schemas as schema libraries emit them, each with answers that the library itself accepts and rejects. */

export interface Emitted<Type = unknown> {
  /** The schema in the library's own form. */
  readonly type: Type
  readonly schema: Readonly<Record<string, unknown>>
  readonly right: readonly unknown[]
  readonly wrong: readonly unknown[]
  /** The library's verdict on an answer. */
  readonly accepts: (answer: unknown) => boolean
}

/** A type of a library, with valid and invalid answers. */
export type Sample<Type> = readonly [type: Type, right: readonly unknown[], wrong: readonly unknown[]]

/** Emits the types of one library with its own emitter. The schema is taken as text, as it would be sent. */
export function emitAll<Type>(
  samples: readonly Sample<Type>[],
  emit: (type: Type) => unknown,
  accepts: (type: Type, answer: unknown) => boolean,
): Emitted<Type>[] {
  return samples.map(([type, right, wrong]) => ({
    type,
    schema: JSON.parse(JSON.stringify(emit(type))),
    right,
    wrong,
    accepts: (answer) => accepts(type, answer),
  }))
}
