/** Lists the schemas of each library. */
import { ARKTYPE } from './arktype.ts'
import { EFFECT } from './effect.ts'
import type { Emitted } from './emitted.ts'
import { TYPEBOX } from './typebox.ts'
import { VALIBOT } from './valibot.ts'
import { ZOD, ZOD_TO_JSON_SCHEMA } from './zod.ts'

export const LIBRARIES: Readonly<Record<string, readonly Emitted[]>> = {
  Zod: ZOD,
  'zod-to-json-schema': ZOD_TO_JSON_SCHEMA,
  TypeBox: TYPEBOX,
  Valibot: VALIBOT,
  ArkType: ARKTYPE,
  Effect: EFFECT,
}

/**
 * A schema may be rejected only because a linear matcher cannot handle its pattern. Valibot's BIC and ArkType's numbers and
 * dates have such patterns.
 */
export const LOOKS_AROUND = /^has a lookahead or lookbehind/
