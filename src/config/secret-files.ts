/**
 * Reads secrets from files, as Kubernetes and Docker provide them: the variable `NAME_FILE` contains the path of the file with
 * the value of `NAME`.
 */
import { readFileSync } from 'node:fs'
import type { Environment } from './settings.ts'

const IN_FILES = ['DATABASE_URL', 'OPENAI_API_KEY', 'PARLEY_ADMIN_TOKEN'] as const
type SecretName = (typeof IN_FILES)[number]

export const SECRET_FILE_VARIABLES: readonly string[] = IN_FILES.map((name) => `${name}_FILE`)

/**
 * Returns the environment, in which these variables have the values from their files. An empty variable counts as not set.
 * @param problems gets a sentence for each value that cannot be read
 */
export function withSecretFiles(
  env: Environment,
  problems: string[],
  names: readonly SecretName[] = IN_FILES,
): Environment {
  const inFiles = names.filter((name) => env[`${name}_FILE`])
  const found = inFiles.flatMap((name) => {
    const value = secretIn(name, env[`${name}_FILE`] ?? '', env, problems)
    return value === null ? [] : [[name, value]]
  })
  return found.length === 0 ? env : { ...env, ...Object.fromEntries(found) }
}

function secretIn(name: SecretName, path: string, env: Environment, problems: string[]): string | null {
  const variable = `${name}_FILE`
  if (env[name]) {
    problems.push(`${variable}: ${name} is set, too; unset one of the two`)
    return null
  }
  try {
    const value = readFileSync(path, 'utf8').replace(/[\r\n]+$/, '')
    if (value !== '') return value
    problems.push(`${variable}: the file ${path} is empty`)
  } catch (error) {
    problems.push(`${variable}: the file ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  return null
}
