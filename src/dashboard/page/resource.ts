/** Loads data from the admin API for a page, and shows that data is being loaded or could not be loaded. */
import { html } from 'htm/preact'
import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, admin } from './api.ts'
import { useLive } from './live.ts'

export interface Resource<T> {
  /** The latest data remains while data is loaded again. */
  readonly data: T | null
  readonly error: ApiError | null
  readonly loading: boolean
  readonly reload: () => void
}

/** @param path the path below `/admin/api`; null to load nothing. If the path changes, the data of the old path is dropped. */
export function useResource<T>(path: string | null): Resource<T> {
  return useLoaded<T>(path, (signal) => admin<T>(path ?? '', { signal }))
}

/**
 * @param of identifies the data; null to load nothing. If it changes, the old data is dropped.
 * @param extent if only this changes, `load` runs again and the old data remains meanwhile
 */
export function useLoaded<T>(
  of: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  extent: unknown = null,
): Resource<T> {
  const [read, setRead] = useState<{ of: string | null; data: T | null; error: ApiError | null }>({
    of,
    data: null,
    error: null,
  })
  const [loading, setLoading] = useState(of !== null)
  const [reloads, setReloads] = useState(0)
  useEffect(() => {
    if (of === null) return
    const ending = new AbortController()
    const { signal } = ending
    setLoading(true)
    load(signal).then(
      (data) => {
        if (signal.aborted) return
        setRead({ of, data, error: null })
        setLoading(false)
      },
      (error: unknown) => {
        if (signal.aborted) return
        setRead((before) => ({ of, data: before.of === of ? before.data : null, error: apiError(error) }))
        setLoading(false)
      },
    )
    return () => ending.abort()
  }, [of, extent, reloads])
  const reload = useCallback(() => setReloads((count) => count + 1), [])
  const isCurrent = read.of === of
  return { data: isCurrent ? read.data : null, error: isCurrent ? read.error : null, loading, reload }
}

/** Calls `reload` when metric samples show a change, at most once per `everyMs`. */
export function useReloadOnChange(reload: () => void, active: boolean, everyMs = 4000): void {
  const { points } = useLive()
  const lastMs = useRef(Date.now())
  const depthsBefore = useRef('')
  const isDue = useRef(false)
  useEffect(() => {
    const point = points.at(-1)
    if (!point || !active) return
    const { waiting, assigned, jobs, callbacks, callbacks_owed } = point
    const depths = `${waiting} ${assigned} ${callbacks_owed}`
    const ended = [...Object.values(jobs), ...Object.values(callbacks)].some((n) => n > 0)
    isDue.current ||= ended || depths !== depthsBefore.current
    depthsBefore.current = depths
    if (!isDue.current || Date.now() - lastMs.current < everyMs) return
    isDue.current = false
    lastMs.current = Date.now()
    reload()
  }, [points, active, everyMs, reload])
}

/** Calls `reload` with each metric sample, for changes that samples do not show. */
export function useReloadWhile(reload: () => void, active: boolean): void {
  const { points } = useLive()
  const isFirst = useRef(true)
  useEffect(() => {
    if (active && !isFirst.current) reload()
    isFirst.current = false
  }, [points, active, reload])
}

export function apiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error))
}

interface StateOfProps {
  readonly of: Pick<Resource<unknown>, 'data' | 'error' | 'loading' | 'reload'>
  /** The text names the data with these words, such as `the jobs`. */
  readonly what: string
}

/** Renders nothing if the resource is loaded. */
export function StateOf({ of: { data, error, reload }, what }: StateOfProps) {
  if (error) {
    return html`<div class="fault" role="alert">
      <p><strong>Could not load ${what}.</strong> ${error.words}</p>
      <button type="button" class="button" onClick=${reload}>Try again</button>
    </div>`
  }
  if (data === null) return html`<p class="loading" aria-busy="true">Loading ${what}…</p>`
  return null
}

interface EmptyProps {
  readonly title: string
  readonly children?: ComponentChildren
}

export function Empty({ title, children }: EmptyProps) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    <div class="muted">${children}</div>
  </div>`
}
