/** Stepping in on accounts: suspending, capping, cancelling their jobs, and deleting one for good. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { capsView, readCap, secondsOf } from '../../admin/account-view.ts'
import { deleteWholeAccount, setCaps, suspendAccount } from '../../admin/actions/accounts.ts'
import { cancelJobsOf } from '../../admin/actions/jobs.ts'
import { sendData } from '../envelope.ts'
import { accountStillUsed, invalid, noSuchAccount, notScrubbed } from '../errors.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { operatorHeader } from './operator.ts'
import { adminErrors, caps, count, nameParam, scrubQuery, strict, unixTimeOrNull } from './shapes.ts'

type NameParam = { Params: { name: string } }

const newCaps = Type.Object(caps, strict)
const whichJobs = Type.Object(
  { running: Type.Optional(Type.Boolean({ description: 'Those that run, too.' })) },
  strict,
)

export function accountActRoutes(app: FastifyInstance, parts: AdminParts): void {
  suspendRoute(app, parts, 'suspend')
  suspendRoute(app, parts, 'resume')
  cancelJobsRoute(app, parts)
  capsRoute(app, parts)
  deleteRoute(app, parts)
}

function suspendRoute(app: FastifyInstance, parts: AdminParts, verb: 'suspend' | 'resume'): void {
  const { store, clock, act, noteAct } = parts
  const suspends = verb === 'suspend'
  app.post<NameParam>(
    `/accounts/:name/${verb}`,
    {
      schema: {
        summary: suspends
          ? 'Let an account create no jobs; it may still read them'
          : 'Let a suspended account create jobs again',
        headers: operatorHeader,
        params: nameParam,
        response: {
          200: success(
            'So it is; every node knows within seconds.',
            Type.Object({ name: Type.String(), suspended_at: unixTimeOrNull('Since when it is suspended') }),
          ),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const sinceMs = suspends ? clock.nowMs() : null
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const suspended = await act(request, suspendAccount(store, name, sinceMs))
      if (!suspended) throw noSuchAccount()
      noteAct(request, `${verb} an account`, { account: name })
      const message = `The account is ${verb}${suspends ? 'ed' : 'd'}; every node knows within seconds.`
      const data = { name, suspended_at: secondsOf(suspended.sinceMs) }
      return sendData(reply, 200, message, JSON.stringify(data))
    },
  )
}

function cancelJobsRoute(
  app: FastifyInstance,
  { store, clock, act, noteAct, onCancelled }: AdminParts,
): void {
  app.post<NameParam & { Body: Static<typeof whichJobs> }>(
    '/accounts/:name/cancel-jobs',
    {
      preValidation: (request, _reply, done) => {
        if (request.body === undefined) request.body = {}
        done()
      },
      schema: {
        summary: "End an account's jobs that wait, and those that run where asked to",
        headers: operatorHeader,
        params: nameParam,
        body: { ...whichJobs, examples: exampleBodies.cancels },
        response: {
          200: success('They are cancelled.', Type.Object({ cancelled: count })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { running = false } = request.body
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const cancelled = await act(request, cancelJobsOf(store, clock, { account: name, running }))
      if (cancelled === null) throw noSuchAccount()
      await onCancelled()
      noteAct(request, 'cancel the jobs of an account', { account: name, running, jobs: cancelled })
      return sendData(reply, 200, `${cancelled} jobs are cancelled.`, JSON.stringify({ cancelled }))
    },
  )
}

const isCap = (given: unknown) =>
  given === 'none' || given === 'tier' || (Number.isSafeInteger(given) && Number(given) >= 0)

function capsRoute(app: FastifyInstance, { store, act, noteAct }: AdminParts): void {
  app.post<NameParam & { Body: Static<typeof newCaps> }>(
    '/accounts/:name/caps',
    {
      preValidation: (request, _reply, done) => {
        // The schema would name the first of what is allowed only.
        const given = Object.entries(Object(request.body))
        const wrong = given.find(([name, cap]) => Object.hasOwn(caps, name) && !isCap(cap))
        done(wrong && invalid(`${wrong[0]}: must be a whole number from 0, none or tier`))
      },
      schema: {
        summary: 'Give an account monthly caps of its own, none, or those of its tier',
        headers: operatorHeader,
        params: nameParam,
        body: { ...newCaps, examples: exampleBodies.caps },
        response: {
          200: success('It has these caps.', Type.Object({ name: Type.String(), ...caps })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { max_monthly_jobs: jobs, max_monthly_tokens: tokens } = request.body
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const own = { monthlyJobs: readCap(jobs), monthlyTokens: readCap(tokens) }
      if (!(await act(request, setCaps(store, name, own)))) throw noSuchAccount()
      noteAct(request, 'set the caps of an account', { account: name, ...capsView(own) })
      const message = 'The account has these caps; every node knows within seconds.'
      return sendData(reply, 200, message, JSON.stringify({ name, ...capsView(own) }))
    },
  )
}

function deleteRoute(app: FastifyInstance, { store, clock, act, noteAct, onCancelled }: AdminParts): void {
  app.delete<NameParam & { Querystring: Static<typeof scrubQuery> }>(
    '/accounts/:name',
    {
      schema: {
        summary: 'Delete an account with its keys, jobs, secrets and usage, for good',
        description:
          'It is suspended, its jobs are cancelled, and then all goes. It takes at least 3 seconds, so that every node knows. What the audit log says of it stays.',
        headers: operatorHeader,
        params: nameParam,
        querystring: scrubQuery,
        response: {
          200: success(
            'It is deleted.',
            Type.Object({
              deleted: Type.Literal(true),
              jobs: Type.Integer({ description: 'Jobs that went with it.' }),
              cancelled: Type.Integer({ description: 'Those of them that had to be cancelled.' }),
            }),
          ),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const scrub = request.query.scrub !== 'false'
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const which = { account: name, scrub, onProgress: () => void onCancelled() }
      const result = await act(request, deleteWholeAccount(store, clock, which))
      if (result.kind === 'unknown') throw noSuchAccount()
      const { jobs, cancelled } = result
      noteAct(request, 'delete an account', { account: name, scrub, outcome: result.kind, jobs, cancelled })
      if (result.kind === 'still used') throw accountStillUsed(jobs)
      if (result.notScrubbed !== null) throw notScrubbed(result.notScrubbed)
      const data = JSON.stringify({ deleted: true, jobs, cancelled })
      return sendData(reply, 200, 'The account is deleted.', data)
    },
  )
}
