/** The page of the audit log, newest entries first. */
import { html } from 'htm/preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import type { AuditPageData } from '../contract.ts'
import { TextField } from '../parts/field.ts'
import { PageTitle } from '../parts/page-title.ts'
import { PagesOf } from '../parts/pages-of.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { useResource } from '../resource.ts'
import { address, navigate, usePlace } from '../router.ts'
import { AuditTable } from './audit-table.ts'

const PAGE_SIZE = '50'

export function AuditPage() {
  const { query } = usePlace()
  const account = query.get('account') ?? ''
  const before = query.get('before') ?? ''
  const [typed, setTyped] = useState(account)
  // The back button restores earlier filters. A layout effect sets the field before the next key press, so that no input is lost.
  useLayoutEffect(() => setTyped(account), [account])
  const asked = new URLSearchParams({
    limit: PAGE_SIZE,
    ...(account && { account }),
    ...(before && { before }),
  })
  const page = useResource<AuditPageData>(`/audit?${asked}`)
  const { data, error, loading, reload } = page
  const onSubmit = (event: Event) => {
    event.preventDefault()
    navigate(address(['audit'], { account: typed.trim() }))
  }
  const older = () => {
    if (data?.next) navigate(address(['audit'], { account, before: data.next }))
  }
  return html`<${PageTitle} title="Audit log">
      <button type="button" class="button" disabled=${loading} onClick=${reload}>Reload</button>
    <//>
    <form role="search" aria-label="Audit log entries of an account" class="filters" onSubmit=${onSubmit}>
      <${TextField} label="Account" value=${typed} onInput=${setTyped} placeholder="any" spellcheck=${false} autocomplete="off" />
      <button type="submit" class="button">Search</button>
    </form>
    ${error || !data ? html`<${StateOf} of=${page} what="the audit log" />` : null}
    ${data && data.acts.length > 0 && html`<${AuditTable} entries=${data.acts} />`}
    ${
      data?.acts.length === 0 &&
      html`<${Empty} title=${account === '' ? 'The audit log is empty' : 'No entries for this account'}>
        ${
          account === ''
            ? html`<p>Admin actions in the dashboard, the admin API and the command line are recorded here.</p>`
            : html`<p><a href=${address(['audit'])}>All entries</a></p>`
        }
      <//>`
    }
    ${
      data &&
      html`<${PagesOf} isFirst=${before === ''} more=${data.more} onOlder=${older}
      onNewest=${() => navigate(address(['audit'], { account }))} />`
    }`
}
