/** Prepares the dashboard's files on a separate thread, because this would delay requests; see `madeInThread`. */
import { parentPort, workerData } from 'node:worker_threads'
import { makePage } from './page-files.ts'

parentPort?.postMessage(makePage(workerData as string))
