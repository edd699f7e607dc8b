/** Prepares the dashboard's files in a separate thread, so that no request waits for it; see `madeInThread`. */
import { parentPort, workerData } from 'node:worker_threads'
import { makePage } from './page-files.ts'

parentPort?.postMessage(makePage(workerData as string))
