/** Reads the options of a job from a request, where they have the same names except for the length of an answer. */
import { Ajv, type ValidateFunction } from 'ajv'
import { FieldProblem } from '../job/field-problem.ts'
import { type JobOptions, jobOptions, OPTION_NAMES } from '../job/options.ts'
import type { Fields } from './fields.ts'

let validate: ValidateFunction | undefined

/** @param lengthField the request's name for `max_tokens` */
export function optionsOf(fields: Fields, lengthField: string): JobOptions {
  const given: Record<string, unknown> = {}
  for (const name of OPTION_NAMES) {
    const value = fields[name === 'max_tokens' ? lengthField : name]
    if (value !== undefined) given[name] = value
  }
  validate ??= new Ajv().compile(jobOptions)
  if (!validate(given)) {
    const [first] = validate.errors ?? []
    const name = first?.instancePath.split('/')[1] ?? ''
    const rule =
      first?.keyword === 'enum' ? `must be one of ${first.params.allowedValues.join(', ')}` : first?.message
    throw new FieldProblem(name === 'max_tokens' ? lengthField : name, rule ?? 'is not valid')
  }
  return given
}
