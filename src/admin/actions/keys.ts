/** Admin actions on API keys. The audit log records a key's ID, never the key. */
import { type Issued, type IssueRequest, issueKey } from '../../accounts/issue-key.ts'
import type { Clock } from '../../clock.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import type { AdminAction } from '../admin-action.ts'

export function createKeyAction(store: OperatorStore, request: IssueRequest): AdminAction<Issued> {
  const { account, tier, expiresDays } = request
  return {
    what: 'make a key',
    account,
    details: { tier, expires_days: expiresDays },
    run: () => issueKey(store, request),
    describe: (issued) =>
      issued.kind === 'issued' ? `made ${issued.keyId}` : `refused: the account has tier ${issued.tier}`,
  }
}

export function revokeKeyAction(
  store: OperatorStore,
  clock: Clock,
  keyId: string,
): AdminAction<'revoked' | 'revoked before' | 'unknown'> {
  return {
    what: 'revoke a key',
    target: keyId,
    run: () => store.revokeKey(keyId, clock.nowMs()),
    describe: (result) => (result === 'unknown' ? 'refused: there is no such key' : result),
  }
}
