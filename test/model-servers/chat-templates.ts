/**
 * Renders a conversation with four chat templates, or rejects it: modeled on the Jinja templates of these models, for
 * conversations without tools. Roles that a template does not know may get lost.
 */

export interface ChatMessage {
  readonly role: string
  readonly content: string
}

export type ChatTemplate = 'qwen-2.5' | 'phi-3.5' | 'gemma-2' | 'mistral-nemo'

/** The error when a template calls `raise_exception`, with the template's message. */
export class TemplateRejection extends Error {}

/** Returns the prompt. Throws a TemplateRejection for a conversation that the template rejects. */
export function renderChat(template: ChatTemplate, messages: readonly ChatMessage[]): string {
  return templates[template](messages)
}

const templates: { readonly [name in ChatTemplate]: (messages: readonly ChatMessage[]) => string } = {
  'qwen-2.5': qwen,
  'phi-3.5': phi,
  'gemma-2': gemma,
  'mistral-nemo': mistral,
}

/** Qwen 2.5: roles other than these three are silently left out. */
function qwen(messages: readonly ChatMessage[]): string {
  const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`
  const known = messages.filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
  const usual = turn('system', 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.')
  const before = messages[0]?.role === 'system' ? '' : usual
  return `${before}${known.map(({ role, content }) => turn(role, content)).join('')}<|im_start|>assistant\n`
}

/** Phi 3.5: roles other than these three are silently left out. */
function phi(messages: readonly ChatMessage[]): string {
  const known = messages.filter(({ role }) => ['system', 'user', 'assistant'].includes(role))
  return `${known.map(({ role, content }) => `<|${role}|>\n${content}<|end|>\n`).join('')}<|assistant|>\n`
}

/** Gemma 2: there is no system message; user and assistant alternate; any other role in an assistant's place is used unchanged. */
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
 * Mistral Nemo: a leading system message is merged into the last user message, or dropped if that is not the last message.
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
