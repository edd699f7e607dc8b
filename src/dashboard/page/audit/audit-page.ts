/** Who did what, newest first. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import type { ActList } from '../contract-operations.ts'
import { TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { ActTable } from './act-table.ts'

const PAGE = '50'

export function AuditPage() {
  const { query } = usePlace()
  const account = query.get('account') ?? ''
  const before = query.get('before') ?? ''
  const [typed, setTyped] = useState(account)
  // The back button brings earlier filters; set before anybody can type, so that nothing typed is lost.
  useLayoutEffect(() => setTyped(account), [account])
  const asked = new URLSearchParams({ limit: PAGE, ...(account && { account }), ...(before && { before }) })
  const acts = useResource<ActList>(`/audit?${asked}`)
  const { data, error, loading, reload } = acts
  const onSubmit = (event: Event) => {
    event.preventDefault()
    navigate(address(['audit'], { account: typed.trim() }))
  }
  const older = () => {
    if (data?.next) navigate(address(['audit'], { account, before: data.next }))
  }
  return html`<${PageTitle} title="Audit log">
      <button type="button" class="button" disabled=${loading} onClick=${reload}>Read again</button>
    <//>
    <form role="search" aria-label="Acts about an account" class="filters" onSubmit=${onSubmit}>
      <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
      <button type="submit" class="button">Search</button>
    </form>
    ${error || !data ? html`<${StateOf} of=${acts} what="the audit log" />` : null}
    ${data && data.acts.length > 0 && html`<${ActTable} acts=${data.acts} />`}
    ${
      data?.acts.length === 0 &&
      html`<${Empty} title=${account === '' ? 'Nobody has done anything yet' : 'Nothing was done to this account'}>
        ${
          account === ''
            ? html`<p>What operators do here and by the command line is written down.</p>`
            : html`<p><a href=${address(['audit'])}>All acts</a></p>`
        }
      <//>`
    }
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['audit'], { account }))} />`
    }`
}
