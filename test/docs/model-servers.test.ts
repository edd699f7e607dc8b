/**
 * Tests that the configurations of docs/model-servers.md work as printed, each with a server that behaves like the real one.
 * Only the host is replaced.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { type ModelServerForTests, type Script, startModelServer } from '../model-server.ts'
import { lmStudio, Ollama } from '../model-servers/desktop-servers.ts'
import { liteLlm, portkey } from '../model-servers/gateways.ts'
import { anthropic, azure, google, KEY, mistral, openRouter } from '../model-servers/hosted-servers.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { Vllm } from '../model-servers/vllm.ts'
import { job, type Parley, startParley } from '../parley.ts'
import { CLONE } from '../process/server-process.ts'

const page = readFileSync(join(CLONE, 'docs/model-servers.md'), 'utf8')
const sections = new Map(
  page.split(/^## /m).map((section) => [section.slice(0, section.indexOf('\n')), section] as const),
)

const SERVERS: readonly [heading: string, script: () => Script, env: Record<string, string>][] = [
  ['Azure OpenAI', () => azure({ deployment: 'YOUR-DEPLOYMENT' }), { AZURE_OPENAI_API_KEY: KEY }],
  ['OpenRouter', () => openRouter(), { OPENROUTER_API_KEY: KEY }],
  ['Anthropic', () => anthropic(), { ANTHROPIC_API_KEY: KEY }],
  ['Google', () => google(), { GEMINI_API_KEY: KEY }],
  ['Mistral', () => mistral({ parts: true }), { MISTRAL_API_KEY: KEY }],
  ['vLLM', () => new Vllm({ template: 'mistral-nemo', apiKey: KEY }).script, { OPENAI_API_KEY: KEY }],
  ['llama.cpp', () => new LlamaCpp({ template: 'gemma-2' }).script, {}],
  ['Ollama', () => new Ollama().script, {}],
  ['LM Studio', () => lmStudio(), {}],
  ['Portkey', () => portkey(), { PROVIDER_API_KEY: KEY }],
  ['LiteLLM', () => liteLlm({ key: KEY }), { OPENAI_API_KEY: KEY }],
]

describe('the configuration works', () => {
  for (const [heading, script, env] of SERVERS) {
    test(heading, async (t) => {
      const server = await startModelServer({ script: script() }, t)
      const parley = await configured(t, heading, server, env)
      const key = await parley.key()
      for (const roles of [
        ['user'],
        ['developer', 'user'],
        ['system', 'developer', 'user', 'assistant', 'user'],
      ]) {
        const messages = roles.map((role, index) => ({ role, content: `${role} ${index}` }))
        const { body } = await parley.post('/api/v1/messages', job({ messages }), key)
        assert.equal(body.data.status, 'completed', JSON.stringify(body))
        assert.match(body.data.result.response_content, /^echo: /)
      }
      const schema = { type: 'object', properties: { river: { type: 'string' } }, required: ['river'] }
      const response_format = { format: 'json', schema: { ...schema, additionalProperties: false } }
      const { body } = await parley.post('/api/v1/messages', job({ response_format }), key)
      assert.equal(body.data.status, 'completed', JSON.stringify(body))
      assert.equal(typeof body.data.result.response_content.river, 'string')
    })
  }

  test('every section with a configuration is tested here', () => {
    const withOne = [...sections].filter(([, text]) => /^```json|OPENAI_BASE_URL=http/m.test(text))
    const headings = withOne
      .map(([heading]) => heading)
      .filter((heading) => heading !== 'Several servers and models' && heading !== 'Rates')
    assert.deepEqual(
      headings.slice(1),
      SERVERS.map(([heading]) => heading),
    )
  })
})

/** Uses the configuration file of the section, or the variables of its command. */
async function configured(
  t: TestContext,
  heading: string,
  server: ModelServerForTests,
  env: Record<string, string>,
): Promise<Parley> {
  const section = sections.get(heading) ?? ''
  const file = /^```json\n(.*?)^```/ms.exec(section)?.[1]
  if (file !== undefined) {
    const settings = JSON.parse(atServer(file, server))
    return startParley(t, { settings, env: { OPENAI_MODEL: 'a-model', ...env } })
  }
  const command = section.split('\n').find((line) => line.startsWith('OPENAI_BASE_URL=')) ?? ''
  const variables = [...atServer(command, server).matchAll(/(OPENAI_\w+)=(\S+)/g)]
  return startParley(t, {
    env: { ...Object.fromEntries(variables.map(([, name = '', value = '']) => [name, value])), ...env },
  })
}

function atServer(text: string, { baseUrl }: ModelServerForTests): string {
  return text.replace(/https?:\/\/[^/"\s]+/, new URL(baseUrl).origin)
}
