/** Reads the `finish_reason` of an answer. Servers send more values than OpenAI documents, and some of them in capital letters. Pure. */

export type Finish =
  | 'complete'
  /** A length limit of the request, the model or its context was reached, or the server cut endless repetition. */
  | 'cut'
  /** A content filter stopped or withheld the answer. */
  | 'filtered'
  /** The server gave up in the middle of the answer. */
  | 'failed'

const KNOWN: Readonly<Record<string, Finish>> = {
  length: 'cut',
  // Anthropic and Google, as gateways forward it.
  max_tokens: 'cut',
  // Mistral, if the context of the model is full.
  model_length: 'cut',
  // Anthropic and Z.ai.
  model_context_window_exceeded: 'cut',
  // vLLM and MiMo, if the answer repeats itself.
  repetition: 'cut',
  repetition_truncation: 'cut',
  content_filter: 'filtered',
  // Anthropic, as gateways forward it.
  refusal: 'filtered',
  // Z.ai.
  sensitive: 'filtered',
  // Google.
  safety: 'filtered',
  recitation: 'filtered',
  blocklist: 'filtered',
  prohibited_content: 'filtered',
  spii: 'filtered',
  // Mistral and OpenRouter.
  error: 'failed',
  // vLLM and SGLang, if they stop or restart.
  abort: 'failed',
  // DeepSeek, if it is overloaded.
  insufficient_system_resource: 'failed',
  // Z.ai.
  network_error: 'failed',
}

/** Any other value is taken for the end of a complete answer, such as `stop`, `eos_token` or `tool_calls`. */
export function finishOf(reason: unknown): Finish {
  if (typeof reason !== 'string') return 'complete'
  // Google's API that is compatible with OpenAI adds its own reason: `content_filter: RECITATION`.
  const [word = ''] = reason.toLowerCase().split(':')
  return Object.hasOwn(KNOWN, word) ? (KNOWN[word] ?? 'complete') : 'complete'
}
