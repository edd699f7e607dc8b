/**
 * Gives a test a small disk: a tmpfs in its own mount namespace. The disk needs no privileges if user namespaces are allowed.
 */
import { spawnSync } from 'node:child_process'
import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Installation } from './server-process.ts'

export interface SmallDisk {
  /** The disk is mounted here for programs that were started with `command`. */
  readonly folder: string
  copyTo(folder: string): Promise<void>
  command(command: readonly string[]): readonly string[]
  resize(mib: number): void
}

const NAMESPACE = ['--user', '--map-root-user', '--mount']

export function canMount(): boolean {
  const probe = 'mount -t tmpfs -o size=1m parley-test /mnt && command -v nsenter'
  return spawnSync('unshare', [...NAMESPACE, 'sh', '-c', probe]).status === 0
}

/** The disk exists until the installation is removed. */
export async function startDisk(place: Installation, mib: number): Promise<SmallDisk> {
  const folder = join(place.folder, 'small-disk')
  await mkdir(folder)
  const mount = `mount -t tmpfs -o size=${mib}m parley-test "$0" && echo mounted && exec cat`
  // This process keeps the namespace alive while its standard input is open.
  const holder = place.spawn(['unshare', ...NAMESPACE, 'sh', '-c', mount, folder])
  await holder.line(/mounted\n/)
  const enter = [
    'nsenter',
    `--target=${holder.pid}`,
    '--user',
    '--mount',
    '--preserve-credentials',
    `--wd=${place.folder}`,
  ]
  return {
    folder,
    copyTo: (target) => cp(`/proc/${holder.pid}/root${folder}`, target, { recursive: true }),
    command: (command) => [...enter, ...command],
    resize: (size) => {
      const [program = '', ...args] = [...enter, 'mount', '-o', `remount,size=${size}m`, folder]
      const { status, stderr } = spawnSync(program, args)
      if (status !== 0) throw new Error(`the disk was not resized: ${stderr}`)
    },
  }
}
