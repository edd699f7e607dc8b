/** The dashboard's page, made when it is first asked for. */
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../module-url.ts'
import type { Page } from './page-files.ts'

export type { Page, PageFile } from './page-files.ts'

/**
 * Gives the page, made once. What fails is tried anew at the next call.
 * @param base see `makePage`
 */
export function pageMaker(base: string): () => Promise<Page> {
  let made: Promise<Page> | null = null
  return () => {
    made ??= makeInThread(base).catch((error: unknown) => {
      made = null
      throw error
    })
    return made
  }
}

function makeInThread(base: string): Promise<Page> {
  return new Promise((resolve, reject) => {
    // Stripping types is said to be experimental at each start; that is for us to know, not for who reads the log.
    const worker = new Worker(moduleURL('./page-thread.ts', import.meta.url), {
      workerData: base,
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) => reject(new Error(`making the dashboard's page ended with ${code}`)))
  })
}
