/** The page of one callback. */
import { html } from 'htm/preact'
import type { CallbackDetails } from '../contract.ts'
import { Badge } from '../parts/badge.ts'
import { CopyButton } from '../parts/copy-button.ts'
import { Icon } from '../parts/icon.ts'
import { PageTitle } from '../parts/page-title.ts'
import { Panel } from '../parts/panel.ts'
import { Empty, StateOf } from '../parts/state-of.ts'
import { useReloadOnChange, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { Attempts } from './attempts.ts'
import { ReplayButton } from './replay.ts'

export function CallbackPage({ id }: { readonly id: string }) {
  const callback = useResource<CallbackDetails>(`/callbacks/${encodeURIComponent(id)}`)
  const { data } = callback
  useReloadOnChange(callback.reload, data?.state === 'owed', 1500)
  return html`<p class="back-link"><a href=${address(['callbacks'])}><${Icon} name="back" />Callbacks</a></p>
    <${PageTitle} title="Callback" tab=${`Callback ${id.slice(0, 8)}`}>
      ${data && html`<${Badge} state=${data.under_way ? 'in progress' : data.state} />`}
    <//>
    <p class="id-line">${
      data?.event === 'batch'
        ? html`<span>of batch</span> <a class="mono breaks" href=${address(['batches', `batch_${id}`])}>batch_${id}</a>`
        : html`<span>of job</span> <a class="mono breaks" href=${address(['jobs', id])}>${id}</a>`
    }<${CopyButton} text=${id} what="the ID" small /></p>
    ${
      callback.error?.status === 404
        ? html`<${Empty} title="Callback not found"><p>The job has no callback, or it has expired.</p><//>`
        : html`<${StateOf} of=${callback} what="the callback" />`
    }
    ${
      data &&
      html`<${Panel} title="Delivery" wide actions=${html`<${ReplayButton} callback=${data} onReplayed=${callback.reload} />`}>
        <${Attempts} callback=${data} />
      <//>`
    }`
}
