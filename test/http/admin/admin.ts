/**
 * Calls the admin API for tests, as the dashboard does. Every response is checked against the OpenAPI document.
 *
 *     const { admin, caller } = await startAdminScene(t)
 *     const { jobs } = await admin.read('/overview')
 *     await admin.run('/accounts/acme/suspend')
 */
import assert from 'node:assert/strict'
import { Check } from 'typebox/schema'
import type { Script } from '../../model-server.ts'
import { ADMIN_TOKEN, type Answer, type Lifetime, type Parley } from '../../parley.ts'
import { type Scene, type SceneOptions, shareStage, startScene } from '../caller.ts'
import { granted } from '../expect.ts'
import { documentAt, OPERATORS } from '../openapi/document.ts'

export const BASE = '/admin/api'

export interface Admin {
  get(path: string): Promise<Answer>
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  delete(path: string): Promise<Answer>
  /** The GET must succeed with 200. Returns its data. */
  read(path: string): Promise<Answer['body']>
  /** The POST must succeed with 200. Returns its data. */
  run(path: string, body?: unknown): Promise<Answer['body']>
}

interface Response {
  readonly content?: Readonly<Record<string, { readonly schema: Answer['body'] }>>
}

export interface AdminRoute {
  readonly method: string
  /** The path is the one in the OpenAPI document, such as `/admin/api/jobs/{jobId}`. */
  readonly path: string
  readonly responses: Readonly<Record<string, Response>>
  readonly body: boolean
}

export async function adminRoutesOf(parley: Parley): Promise<AdminRoute[]> {
  const { paths } = await documentAt(parley, OPERATORS)
  return Object.entries<Answer['body']>(paths).flatMap(([path, methods]) =>
    path.startsWith(BASE)
      ? Object.entries<Answer['body']>(methods).map(([method, { responses, requestBody }]) => ({
          method: method.toUpperCase(),
          path,
          responses,
          body: requestBody !== undefined,
        }))
      : [],
  )
}

export async function adminOf(parley: Parley, token = ADMIN_TOKEN): Promise<Admin> {
  const routes = await adminRoutesOf(parley)
  const send = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const answer = await parley.request(BASE + path, {
      method,
      headers: {
        ...headers,
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    documented(routes, method, path, answer)
    return answer
  }
  return {
    get: (path) => send('GET', path),
    post: (path, body, headers) => send('POST', path, body, headers),
    delete: (path) => send('DELETE', path),
    read: async (path) => granted(await send('GET', path), 200),
    run: async (path, body) => granted(await send('POST', path, body), 200),
  }
}

export async function startAdminScene(t: Lifetime, options: SceneOptions = {}) {
  const scene = await startScene(t, options)
  return { ...scene, admin: await adminOf(scene.parley) }
}

export function shareAdminStage(options: SceneOptions = {}) {
  const begin = shareStage(options)
  let admin: Admin | undefined
  return async (
    t: Lifetime,
    script?: Script,
    tier?: string,
  ): Promise<Scene & { readonly admin: Admin; readonly account: string }> => {
    const scene = await begin(t, script, tier)
    admin ??= await adminOf(scene.parley)
    return { ...scene, admin, account: scene.caller.account }
  }
}

function documented(routes: readonly AdminRoute[], method: string, path: string, answer: Answer): void {
  const parts = (BASE + path).split('?', 1)[0]?.split('/') ?? []
  const fits = (route: AdminRoute) => {
    const own = route.path.split('/')
    const alike = own.every((part, at) => part === parts[at] || (part.startsWith('{') && parts[at] !== ''))
    return route.method === method && own.length === parts.length && alike
  }
  // If several documented paths match, the one with the fewest parameters applies.
  const [route] = routes.filter(fits).sort((a, b) => a.path.split('{').length - b.path.split('{').length)
  assert.ok(route, `${method} ${path} is not documented`)
  const schema = route.responses[answer.status]?.content?.['application/json']?.schema
  assert.ok(schema, `${method} ${path} does not document ${answer.status}: ${answer.text}`)
  assert.ok(Check(schema, answer.body), `${method} ${path} ${answer.status}: ${answer.text}`)
}
