/** Finds out which peers can be measured here, and how to install the others. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

export interface Missing {
  readonly peer: string
  readonly how: string
}

const PACKAGES = 'npm ci --prefix bench'

export function isInstalled(packageName: string): boolean {
  return existsSync(new URL(`../node_modules/${packageName}/package.json`, import.meta.url))
}

export function hasCommand(command: string): boolean {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined
}

export function bullmqMissing(): Missing | null {
  const how = [
    ...(isInstalled('bullmq') ? [] : [PACKAGES]),
    ...(hasCommand('redis-server') ? [] : ['apt-get install redis-server']),
  ]
  return how.length === 0 ? null : { peer: 'BullMQ', how: how.join(' && ') }
}

export function graphileMissing(): Missing | null {
  return isInstalled('graphile-worker') ? null : { peer: 'graphile-worker', how: PACKAGES }
}

export function pgbossMissing(): Missing | null {
  return isInstalled('pg-boss') ? null : { peer: 'pg-boss', how: PACKAGES }
}

export function portkeyMissing(): Missing | null {
  return isInstalled('@portkey-ai/gateway') ? null : { peer: 'Portkey', how: PACKAGES }
}
