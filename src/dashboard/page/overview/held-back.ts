/** The accounts that this node holds back, with the reason; nothing while it holds none back. */
import { html } from 'htm/preact'
import { reasonText } from '../accounts/held-back.ts'
import type { HeldBack as HeldBackAccount } from '../contract.ts'
import { Badge } from '../parts/badge.ts'
import { Panel } from '../parts/panel.ts'
import { address } from '../router.ts'

export function HeldBack({ accounts }: { readonly accounts: readonly HeldBackAccount[] }) {
  if (accounts.length === 0) return null
  return html`<${Panel} title="Accounts held back on this node" wide>
    <p class="hint">Their queued jobs wait so that jobs of other accounts can start. Other nodes may hold back other accounts.</p>
    <table>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col">Waiting for</th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        ${accounts.map(
          (one) => html`<tr key=${`${one.account} ${one.reason}`}>
            <th scope="row"><a class="breaks" href=${address(['accounts', one.account])}>${one.account}</a></th>
            <td><${Badge} state="busy" word=${one.reason} /></td>
            <td>${reasonText(one)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}
