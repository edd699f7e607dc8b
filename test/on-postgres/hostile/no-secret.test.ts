import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../hostile/no-secret.test.ts'))
