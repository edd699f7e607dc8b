/** Declares the admin actions on callbacks. */
import { Type } from '../../typed-schema.ts'
import { adminAction } from '../action.ts'
import { accountName, count, defined, strict } from '../fields.ts'
import { refusals } from '../refusals.ts'

/** A step is one transaction, which is short so that other writes do not wait for long. */
const CALLBACKS_PER_STEP = 500

/** Replays only callbacks that had failed before the action started, so a callback that fails again is not replayed twice. */
const replayFailed = adminAction({
  what: 'replay failed callbacks',
  about: null,
  fields: Type.Object(
    { account: Type.Optional(accountName) },
    { ...strict, examples: [{}, { account: 'acme' }] },
  ),
  run: async ({ account }, { store, expiry }) => {
    const search = { ...defined({ account }), limit: CALLBACKS_PER_STEP }
    const until = await expiry()
    let replayed = 0
    for (let step = CALLBACKS_PER_STEP; step === CALLBACKS_PER_STEP; replayed += step) {
      step = await store.replayFailedCallbacks(search, until)
    }
    return { replayed }
  },
  outcome: ({ replayed }) => `${replayed} due again`,
  log: ({ account }, { replayed }) => ({ account, callbacks: replayed }),
  route: {
    method: 'post',
    path: '/callbacks/replay-failed',
    operationId: 'replayFailedCallbacks',
    summary: 'Replay all callbacks that have failed permanently',
    description: 'Replays the callbacks of one account, or of all accounts if the body does not name one.',
    success: 'The callbacks are due now.',
    data: Type.Object({ replayed: count }),
    answer: (data) => ({ message: `${data.replayed} callbacks are due now.`, data }),
  },
  print: ({ replayed }, { account }) => ({
    json: { replayed },
    text:
      replayed === 0
        ? `No callback${account === undefined ? '' : ` of account ${account}`} has failed, so none was replayed.`
        : `${replayed} ${replayed === 1 ? 'callback is' : 'callbacks are'} due now, with the full number of attempts.`,
  }),
})

const replay = adminAction({
  what: 'replay a callback',
  about: 'callback',
  fields: Type.Object({}),
  run: async ({ jobId }, { store, expiry }) => {
    const result = await store.replayCallback(jobId, await expiry())
    if (result === 'unknown') return refusals.noSuchCallback(jobId)
    return result === 'in progress' ? refusals.callbackInProgress(jobId) : result
  },
  outcome: () => 'due again',
  route: {
    method: 'post',
    path: '/callbacks/:jobId/replay',
    operationId: 'replayCallback',
    summary: 'Replay a callback: send it again now, regardless of its state',
    description: 'The callback gets the full number of attempts again, and keeps its `webhook-id`.',
    success: 'The callback is due now.',
    data: Type.Object({ replayed: Type.Literal(true) }),
    conflicts: true,
    answer: () => ({ data: { replayed: true } }),
  },
  command: {
    name: 'callbacks replay',
    description: 'send a callback again now, with all attempts',
    arguments: { jobId: ['[job-id]', 'the ID of its job; the callback may be in any state'] },
    options: {
      allFailed: ['--all-failed', 'replay all callbacks that failed permanently'],
      account: ['--account <name>', 'with --all-failed: only callbacks of this account'],
    },
    examples: ['parley callbacks replay 019a5d3e-…', 'parley callbacks replay --all-failed --account acme'],
    choose: ({ jobId, allFailed, account }) => {
      if ((jobId === undefined) === (allFailed === undefined)) return 'Pass either a job ID or --all-failed.'
      if (jobId === undefined) return replayFailed
      return account === undefined
        ? null
        : '--account can only be used with --all-failed. Remove --account or the job ID.'
    },
  },
  print: (_due, { jobId }) => ({
    json: { replayed: 1 },
    text: `The callback of job ${jobId} is due now. A running server sends it within about a second.`,
  }),
})

export const callbackActions = [replay, replayFailed] as const
