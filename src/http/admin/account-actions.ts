/** Routes for admin actions on accounts: suspend, resume, cancel jobs, set caps, delete. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { capsView, secondsOf } from '../../admin/account-view.ts'
import {
  cancelJobsAction,
  deleteAccountAction,
  setCapsAction,
  suspendAction,
} from '../../admin/actions/accounts.ts'
import { sendData } from '../envelope.ts'
import { accountStillUsed, invalid, noSuchAccount, notScrubbed } from '../errors.ts'
import { fillMissingBody } from '../json-body.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import { adminErrors, caps, count, nameParam, scrubQuery, strict, unixTimeOrNull } from './shapes.ts'

type NameParam = { Params: { name: string } }

const newCaps = Type.Object(
  {
    ...caps,
    max_open_jobs: Type.Optional(caps.max_open_jobs),
    max_stored_bytes: Type.Optional(caps.max_stored_bytes),
  },
  { ...strict, description: 'Quotas that are absent remain unchanged.' },
)
const jobsToCancel = Type.Object(
  { running: Type.Optional(Type.Boolean({ description: 'Also cancels running jobs.' })) },
  strict,
)

export function accountActionRoutes(app: FastifyInstance, context: AdminContext): void {
  suspendRoute(app, context, 'suspend')
  suspendRoute(app, context, 'resume')
  cancelJobsRoute(app, context)
  capsRoute(app, context)
  deleteRoute(app, context)
}

function suspendRoute(app: FastifyInstance, context: AdminContext, verb: 'suspend' | 'resume'): void {
  const { store, clock, perform, logAction } = context
  const suspends = verb === 'suspend'
  app.post<NameParam>(
    `/accounts/:name/${verb}`,
    {
      schema: {
        operationId: `${verb}Account`,
        summary: suspends
          ? 'Suspend an account: it cannot create jobs, but can still read them'
          : 'Resume a suspended account: it can create jobs again',
        description: 'Queued and running jobs continue. Every node applies the change within a few seconds.',
        headers: operatorHeader,
        params: nameParam,
        response: {
          200: success(
            'Done. Every node applies the change within a few seconds.',
            Type.Object({ name: Type.String(), suspended_at: unixTimeOrNull('When it was suspended') }),
          ),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const sinceMs = suspends ? clock.nowMs() : null
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const suspension = await perform(request, suspendAction(store, name, sinceMs))
      if (!suspension) throw noSuchAccount()
      logAction(request, `${verb} an account`, { account: name })
      const message = `The account is ${verb}${suspends ? 'ed' : 'd'}. Every node applies the change within a few seconds.`
      const data = { name, suspended_at: secondsOf(suspension.sinceMs) }
      return sendData(reply, 200, message, JSON.stringify(data))
    },
  )
}

function cancelJobsRoute(
  app: FastifyInstance,
  { store, clock, perform, logAction, onCancelled }: AdminContext,
): void {
  app.post<NameParam & { Body: Static<typeof jobsToCancel> }>(
    '/accounts/:name/cancel-jobs',
    {
      preValidation: fillMissingBody,
      schema: {
        operationId: 'cancelAccountJobs',
        summary: "Cancel an account's queued jobs and, on request, its running jobs",
        description: 'Each of them fails with `cancelled`, and its callback is sent.',
        headers: operatorHeader,
        params: nameParam,
        body: { ...jobsToCancel, examples: exampleBodies.cancels },
        response: {
          200: success('The jobs were cancelled.', Type.Object({ cancelled: count })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { running = false } = request.body
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const cancelled = await perform(request, cancelJobsAction(store, clock, { account: name, running }))
      if (cancelled === null) throw noSuchAccount()
      await onCancelled()
      logAction(request, 'cancel the jobs of an account', { account: name, running, jobs: cancelled })
      return sendData(reply, 200, `${cancelled} jobs are cancelled.`, JSON.stringify({ cancelled }))
    },
  )
}

const isCap = (given: unknown) =>
  given === 'none' || given === 'tier' || (Number.isSafeInteger(given) && Number(given) >= 0)

function capsRoute(app: FastifyInstance, { store, perform, logAction }: AdminContext): void {
  app.post<NameParam & { Body: Static<typeof newCaps> }>(
    '/accounts/:name/caps',
    {
      preValidation: (request, _reply, done) => {
        // The schema's error message would name only the first of the allowed forms.
        const given = Object.entries(Object(request.body))
        const wrong = given.find(([name, cap]) => Object.hasOwn(caps, name) && !isCap(cap))
        done(wrong && invalid(`${wrong[0]}: must be a whole number of at least 0, none, or tier`))
      },
      schema: {
        operationId: 'setAccountCaps',
        summary: 'Set the monthly caps and quotas of an account',
        description:
          'Caps limit what the account uses in a calendar month (UTC). Quotas limit what it has open or stored at any time.',
        headers: operatorHeader,
        params: nameParam,
        body: { ...newCaps, examples: exampleBodies.caps },
        response: {
          200: success('The caps were set.', Type.Object({ name: Type.String(), ...caps })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const own = await perform(request, setCapsAction(store, name, request.body))
      if (!own) throw noSuchAccount()
      logAction(request, 'set the caps of an account', { account: name, ...capsView(own) })
      const message = 'The caps were set. Every node applies them within a few seconds.'
      return sendData(reply, 200, message, JSON.stringify({ name, ...capsView(own) }))
    },
  )
}

function deleteRoute(
  app: FastifyInstance,
  { store, clock, perform, logAction, onCancelled }: AdminContext,
): void {
  app.delete<NameParam & { Querystring: Static<typeof scrubQuery> }>(
    '/accounts/:name',
    {
      schema: {
        operationId: 'deleteAccount',
        summary: 'Permanently delete an account with its keys, jobs, secrets and usage',
        description:
          'Suspends the account, cancels its jobs, then deletes everything. This takes at least 3 seconds, because every node must apply the suspension first. The audit log keeps its entries about the account.',
        headers: operatorHeader,
        params: nameParam,
        querystring: scrubQuery,
        response: {
          200: success(
            'The account was deleted.',
            Type.Object({
              deleted: Type.Literal(true),
              jobs: Type.Integer({ description: 'The number of deleted jobs.' }),
              cancelled: Type.Integer({ description: 'How many of them were cancelled first.' }),
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
      const deletion = { account: name, scrub, onProgress: () => void onCancelled() }
      const result = await perform(request, deleteAccountAction(store, clock, deletion))
      if (result.kind === 'unknown') throw noSuchAccount()
      const { jobs, cancelled } = result
      logAction(request, 'delete an account', { account: name, scrub, outcome: result.kind, jobs, cancelled })
      if (result.kind === 'still used') throw accountStillUsed(jobs)
      if (result.notScrubbed !== null) throw notScrubbed(result.notScrubbed)
      const data = JSON.stringify({ deleted: true, jobs, cancelled })
      return sendData(reply, 200, 'The account was deleted.', data)
    },
  )
}
