import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../browser/stepping-in.test.ts'))
