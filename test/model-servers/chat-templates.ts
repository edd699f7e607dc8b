/**
 * Renders a conversation with four chat templates, or rejects it. Each follows the Jinja template of its models, for
 * conversations without tools. A template may lose roles that it does not know.
 */

export interface ChatMessage {
  readonly role: string
  readonly content: string
}

export type ChatTemplate = 'qwen-2.5' | 'phi-3.5' | 'gemma-2' | 'mistral-nemo'

/** A template that calls `raise_exception` causes this error, with the template's message. */
export class TemplateRejection extends Error {}

/** Throws a TemplateRejection for a conversation that the template rejects. */
export function renderChat(template: ChatTemplate, messages: readonly ChatMessage[]): string {
  return templates[template](messages)
}

const templates: { readonly [name in ChatTemplate]: (messages: readonly ChatMessage[]) => string } = {
  'qwen-2.5': qwen,
  'phi-3.5': phi,
  'gemma-2': gemma,
  'mistral-nemo': mistral,
}

/** The template of Qwen 2.5 silently leaves out messages of unknown roles, such as `developer`. */
function qwen(messages: readonly ChatMessage[]): string {
  const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`
  const known = messages.filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
  const usual = turn('system', 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.')
  const before = messages[0]?.role === 'system' ? '' : usual
  return `${before}${known.map(({ role, content }) => turn(role, content)).join('')}<|im_start|>assistant\n`
}

/** The template of Phi 3.5 silently leaves out messages of unknown roles, such as `developer`. */
function phi(messages: readonly ChatMessage[]): string {
  const known = messages.filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
  return `${known.map(({ role, content }) => `<|${role}|>\n${content}<|end|>\n`).join('')}<|assistant|>\n`
}

/**
 * The template of Gemma 2 rejects a leading system message, and requires that user and assistant alternate. It uses any other
 * role in an assistant's place unchanged.
 */
function gemma(messages: readonly ChatMessage[]): string {
  if (messages[0]?.role === 'system') throw new TemplateRejection('System role not supported')
  rejectUnlessAlternating(messages, 'Conversation roles must alternate user/assistant/user/assistant/...')
  const turns = messages.map(({ role, content }) => {
    const name = role === 'assistant' ? 'model' : role
    return `<start_of_turn>${name}\n${content.trim()}<end_of_turn>\n`
  })
  return `<bos>${turns.join('')}<start_of_turn>model\n`
}

/**
 * The template of Mistral Nemo merges a leading system message into the last user message, or drops it if that is not the last
 * message.
 */
function mistral(messages: readonly ChatMessage[]): string {
  const system = messages[0]?.role === 'system' ? messages[0] : null
  const turns = system === null ? messages : messages.slice(1)
  rejectUnlessAlternating(
    turns,
    'After the optional system message, conversation roles must alternate user/assistant/user/assistant/...',
  )
  const texts = turns.map(({ role, content }, index) => {
    if (role === 'assistant') return `${content}</s>`
    if (role !== 'user') {
      throw new TemplateRejection(
        'Only user and assistant roles are supported, with the exception of an initial optional system message!',
      )
    }
    const before = system !== null && index === turns.length - 1 ? `${system.content}\n\n` : ''
    return `[INST]${before}${content}[/INST]`
  })
  return `<s>${texts.join('')}`
}

function rejectUnlessAlternating(messages: readonly ChatMessage[], reason: string): void {
  for (const [index, { role }] of messages.entries()) {
    if ((role === 'user') !== (index % 2 === 0)) throw new TemplateRejection(reason)
  }
}
