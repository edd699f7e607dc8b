/** Builds the page that shows the documents in a separate thread, so that no request waits for it; see docs-page.ts. */
import { parentPort } from 'node:worker_threads'
import { makeDocsPage } from './docs-page-files.ts'

parentPort?.postMessage(await makeDocsPage())
