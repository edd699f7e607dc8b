/** Translates the body of POST /v1/chat/completions to the fields of a job. */
import { FieldProblem } from '../job/field-rules.ts'
import type { SingleCreate } from '../job/request.ts'
import {
  type FieldPolicy,
  formatOf,
  IGNORED,
  is,
  isAnything,
  isEmpty,
  optionsOf,
  supportedFields,
} from './fields.ts'
import { messagesOf } from './messages.ts'

const FIELDS: FieldPolicy = {
  supported: [
    'model',
    'messages',
    'response_format',
    'temperature',
    'top_p',
    'max_tokens',
    'max_completion_tokens',
    'stop',
    'seed',
    'presence_penalty',
    'frequency_penalty',
    'reasoning_effort',
    'verbosity',
  ],
  ignored: ['metadata', ...IGNORED],
  neutral: {
    stream: is(false),
    n: is(1),
    tools: isEmpty,
    tool_choice: is('none', 'auto'),
    functions: isEmpty,
    function_call: is('none', 'auto'),
    parallel_tool_calls: isAnything,
    logprobs: is(false),
    top_logprobs: is(0),
    logit_bias: isEmpty,
    modalities: (value) => Array.isArray(value) && value.every(is('text')),
    verbosity: is('medium'),
  },
}

/** Throws a `FieldProblem` for the first field that is wrong or not supported. */
export function chatOf(body: unknown): { readonly value: SingleCreate } {
  const fields = supportedFields(body, FIELDS)
  const { model, messages, response_format, max_completion_tokens } = fields
  if (typeof model !== 'string') throw new FieldProblem('model', 'must be a string')
  const names = max_completion_tokens === undefined ? {} : { max_tokens: 'max_completion_tokens' }
  return {
    value: {
      model,
      messages: messagesOf(messages, 'messages'),
      response_format: formatOf(response_format, 'response_format'),
      options: optionsOf(fields, names),
    },
  }
}
