/** The dashboard's page and files, prepared when the dashboard is first requested. */
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../module-url.ts'
import type { Page } from './page-files.ts'

export type { Page, PageFile } from './page-files.ts'

/**
 * Returns a function that prepares the page once. After a failure, the next call tries again.
 * @param base see `makePage`
 */
export function pageMaker(base: string): () => Promise<Page> {
  let page: Promise<Page> | null = null
  return () => {
    page ??= makeInThread(base).catch((error: unknown) => {
      page = null
      throw error
    })
    return page
  }
}

function makeInThread(base: string): Promise<Page> {
  return new Promise((resolve, reject) => {
    // Node warns that stripping types is experimental. Operators cannot act on that, so it stays out of the log.
    const worker = new Worker(moduleURL('./page-thread.ts', import.meta.url), {
      workerData: base,
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds the dashboard exited with code ${code}`)),
    )
  })
}
