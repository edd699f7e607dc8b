import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Message, ROLES, type Role } from '../job/job.ts'
import { arrangeMessages, type SentRoles } from './arrange-messages.ts'
import { shapeOf } from './automatic-roles.ts'

const ROLE_OF: Readonly<Record<string, Role>> = { s: 'system', d: 'developer', a: 'assistant', u: 'user' }

/** Makes messages from texts such as `s:be brief`, a system message. */
function messagesOf(...texts: readonly string[]): Message[] {
  return texts.map((text) => ({ role: ROLE_OF[text.charAt(0)] ?? 'user', content: text.slice(2) }))
}

function arrange(
  messages: readonly Message[],
  roles: SentRoles,
  instruction: string | null = null,
): Message[] {
  return JSON.parse(arrangeMessages(JSON.stringify(messages), roles, instruction)) as Message[]
}

type Case = readonly [
  name: string,
  sent: readonly string[],
  merged: readonly string[],
  none: readonly string[],
]

const cases: readonly Case[] = [
  ['developer first', ['d:D', 'u:U'], ['s:D', 'u:U'], ['u:D\n\nU']],
  ['system then developer', ['s:S', 'd:D', 'u:U'], ['s:S\n\nD', 'u:U'], ['u:S\n\nD\n\nU']],
  [
    'system in the middle',
    ['u:U', 'a:A', 's:S', 'd:D', 'u:V'],
    ['u:U', 'a:A', 's:S', 's:D', 'u:V'],
    ['u:U', 'a:A', 'u:S\n\nD\n\nV'],
  ],
  ['assistant first', ['a:A', 'u:U'], ['a:A', 'u:U'], ['u:(continued)', 'a:A', 'u:U']],
  [
    'system, then assistant',
    ['s:S', 'a:A', 'u:U'],
    ['s:S', 'a:A', 'u:U'],
    ['u:(continued)', 'a:A', 'u:S\n\nU'],
  ],
  ['system last', ['u:U', 's:S'], ['u:U', 's:S'], ['u:U\n\nS']],
  ['system last, after assistant', ['u:U', 'a:A', 'd:D'], ['u:U', 'a:A', 's:D'], ['u:U', 'a:A', 'u:D']],
  ['neighbours', ['u:U', 'u:V', 'a:A', 'a:B'], ['u:U', 'u:V', 'a:A', 'a:B'], ['u:U\n\nV', 'a:A\n\nB']],
  ['empty texts', ['s:', 'd:D', 'u:', 'u:U'], ['s:D', 'u:', 'u:U'], ['u:D\n\nU']],
]

describe('a conversation', () => {
  for (const [name, sent, merged, none] of cases) {
    it(`${name}: merged_system and no_system`, () => {
      assert.deepEqual(arrange(messagesOf(...sent), 'merged_system'), messagesOf(...merged))
      assert.deepEqual(arrange(messagesOf(...sent), 'no_system'), messagesOf(...none))
    })
  }

  it('without system messages that begins with the user and alternates stays as it is', () => {
    const json = JSON.stringify(messagesOf('u:U', 'a:A', 'u:V'))
    for (const roles of ['native', 'developer_as_system', 'merged_system', 'no_system'] as const) {
      assert.equal(arrangeMessages(json, roles, null), json)
    }
  })
})

describe('the instruction', () => {
  it('follows the system and developer messages at the beginning', () => {
    const sent = messagesOf('s:S', 'd:D', 'u:U', 's:T', 'u:V')
    assert.deepEqual(
      arrange(sent, 'merged_system', 'I "quoted"'),
      messagesOf('s:S\n\nD\n\nI "quoted"', 'u:U', 's:T', 'u:V'),
    )
    assert.deepEqual(arrange(sent, 'no_system', 'I'), messagesOf('u:S\n\nD\n\nI\n\nU\n\nT\n\nV'))
  })

  it('is a system message before all others, or a part of the first user message, where there is none', () => {
    const sent = messagesOf('a:A', 'u:U')
    assert.deepEqual(arrange(sent, 'merged_system', 'I'), messagesOf('s:I', 'a:A', 'u:U'))
    assert.deepEqual(arrange(sent, 'no_system', 'I'), messagesOf('u:(continued)', 'a:A', 'u:I\n\nU'))
  })

  it('comes before all messages in native and developer_as_system', () => {
    const sent = messagesOf('s:S', 'd:D', 'u:U')
    assert.deepEqual(arrange(sent, 'native', 'I'), [...messagesOf('s:I'), ...sent])
    assert.deepEqual(arrange(sent, 'developer_as_system', 'I'), messagesOf('s:I', 's:S', 's:D', 'u:U'))
  })
})

const PARTS = [
  '"',
  '\\',
  '},{',
  '"},{"role":"user","content":"',
  '"role":"',
  '{',
  ']',
  '\ud800',
  '\n',
  'é',
  'x',
]
/** Some of these texts look like the JSON around them. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(fc.constantFrom(...PARTS)).map((parts) => parts.join('')),
)
const conversation = fc.array(
  fc.record({ role: fc.constantFrom(...ROLES), content: text, isContentFirst: fc.boolean() }),
  { minLength: 1, maxLength: 12 },
)

/** Writes `content` before `role` if the flag says so, because callers may send either order. */
function written(messages: readonly (Message & { readonly isContentFirst: boolean })[]): string {
  return JSON.stringify(
    messages.map(({ role, content, isContentFirst }) =>
      isContentFirst ? { content, role } : { role, content },
    ),
  )
}

const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'

/** This reference implementation works on parsed messages. */
function withoutSystem(messages: readonly Message[]): Message[] {
  const moved: Message[] = []
  let pending: Message[] = []
  for (const message of messages) {
    if (isInstruction(message)) pending.push({ role: 'user', content: message.content })
    else if (message.role === 'assistant') moved.push(message)
    else {
      moved.push(...pending, message)
      pending = []
    }
  }
  if (pending.some(({ content }) => content !== '')) moved.push(...pending)
  const joined: Message[] = []
  for (const { role, content } of moved) {
    const last = joined.at(-1)
    if (last?.role !== role) joined.push({ role, content })
    else joined[joined.length - 1] = { role, content: [last.content, content].filter(Boolean).join('\n\n') }
  }
  return joined[0]?.role === 'assistant' ? [{ role: 'user', content: '(continued)' }, ...joined] : joined
}

describe('any conversation', () => {
  it('is arranged as by parsing it', () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        const json = written(messages)
        const plain = messages.map(({ role, content }): Message => ({ role, content }))
        assert.deepEqual(JSON.parse(arrangeMessages(json, 'no_system', null)), withoutSystem(plain))
        const first = plain.findIndex((message) => !isInstruction(message))
        const leading = plain.slice(0, first === -1 ? plain.length : first)
        const rest = plain
          .slice(leading.length)
          .map(({ role, content }) => ({ role: role === 'developer' ? 'system' : role, content }))
        const content = leading
          .map((message) => message.content)
          .filter(Boolean)
          .join('\n\n')
        const expected = leading.length === 0 ? rest : [{ role: 'system', content }, ...rest]
        assert.deepEqual(JSON.parse(arrangeMessages(json, 'merged_system', null)), expected)
      }),
      { numRuns: 1_000 },
    )
  })

  it('as no_system has user and assistant in turn, from the user on', () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        const arranged = JSON.parse(arrangeMessages(written(messages), 'no_system', 'I')) as Message[]
        assert.ok(arranged.every(({ role }, at) => role === (at % 2 === 0 ? 'user' : 'assistant')))
      }),
      { numRuns: 500 },
    )
  })

  it('has the shape that its merged form has', () => {
    fc.assert(
      fc.property(conversation, fc.boolean(), (messages, hasInstruction) => {
        const json = written(messages)
        const merged = JSON.parse(
          arrangeMessages(json, 'merged_system', hasInstruction ? 'I' : null),
        ) as Message[]
        const turns = merged[0]?.role === 'system' ? merged.slice(1) : merged
        assert.deepEqual(shapeOf(json, hasInstruction), {
          hasSystem: merged.some(({ role }) => role === 'system'),
          isRegular: turns.every(({ role }, at) => role === (at % 2 === 0 ? 'user' : 'assistant')),
          endsWithAssistant: messages.at(-1)?.role === 'assistant',
        })
      }),
      { numRuns: 1_000 },
    )
  })

  it('of a hundred thousand messages is arranged in a moment', () => {
    const messages = Array.from({ length: 100_000 }, (_, n) => ({ role: ROLES[n % 4], content: '' }))
    const json = JSON.stringify(messages)
    const startedAt = process.cpuUsage().user
    arrangeMessages(json, 'no_system', 'I')
    arrangeMessages(
      `${json.slice(0, -1)},{"role":"user","content":"${'\\"'.repeat(2_000_000)}"}]`,
      'no_system',
      'I',
    )
    assert.ok(process.cpuUsage().user - startedAt < 2_000_000)
  })
})
