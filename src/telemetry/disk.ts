/** How much room there is on the disk that a file is on. */
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface Disk {
  /** For a process without special rights. */
  readonly freeBytes: number
  readonly sizeBytes: number
}

export async function diskOf(file: string): Promise<Disk> {
  const { bsize, bavail, blocks } = await statfs(dirname(file))
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize }
}
