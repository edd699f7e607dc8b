/** Collects JSON Schemas as schema libraries emit them, each with answers that the library itself accepts and rejects. */

export interface Emitted<Type = unknown> {
  readonly type: Type
  readonly schema: Readonly<Record<string, unknown>>
  readonly right: readonly unknown[]
  readonly wrong: readonly unknown[]
  readonly accepts: (answer: unknown) => boolean
}

export type Sample<Type> = readonly [type: Type, right: readonly unknown[], wrong: readonly unknown[]]

/** Emits the types of one library with its own emitter. Each schema passes through JSON text, as it would in a request. */
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
