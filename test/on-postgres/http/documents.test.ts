import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/documents.test.ts'))
