/** Downloads a result file. The page requests it with the admin token, then lets the browser save it. */
import { html } from 'htm/preact'
import { useAction } from '../action.ts'
import { download } from '../api.ts'
import type { BatchFile } from '../contract.ts'
import { bytes } from '../format.ts'
import { Icon } from '../parts/icon.ts'
import { saveAs } from '../parts/save-as.ts'

export interface ResultFileProps {
  readonly batchId: string
  readonly which: 'output' | 'error'
  readonly file: BatchFile
}

export function ResultFile({ batchId, which, file }: ResultFileProps) {
  const work = async () => {
    saveAs(await download(`/batches/${batchId}/${which}`), file.filename)
    return `The ${which} file was downloaded.`
  }
  const { busy, run } = useAction(work, () => {})
  return html`<button type="button" class="button" disabled=${busy} onClick=${run}>
    <${Icon} name="down" />${which === 'output' ? 'Output file' : 'Error file'} <span class="muted">${bytes(file.bytes)}</span>
  </button>`
}
