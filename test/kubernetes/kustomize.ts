/** Implements the few features of Kustomize that deploy/kubernetes uses, to test its manifests without kubectl. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: JsonObject }
  readonly [key: string]: unknown
}

interface Kustomization {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace?: string
  readonly resources?: readonly string[]
  readonly components?: readonly string[]
  readonly patches?: readonly { readonly path: string }[]
  readonly configMapGenerator?: readonly { readonly name: string; readonly files: readonly string[] }[]
  readonly images?: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[]
}
const FIELDS = new Set([
  ...[
    'apiVersion',
    'kind',
    'namespace',
    'resources',
    'components',
    'patches',
    'configMapGenerator',
    'images',
  ],
])

/** Returns what `kubectl kustomize FOLDER` prints, without the hash in the names of ConfigMaps. */
export function render(folder: string, before: readonly Manifest[] = []): Manifest[] {
  const given = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')) as Kustomization
  const unknown = Object.keys(given).filter((field) => !FIELDS.has(field))
  if (unknown.length > 0)
    throw new Error(`kustomization.yaml in ${folder}: ${unknown.join()} is not known here`)
  let all = [...before, ...(given.resources ?? []).flatMap((name) => resource(join(folder, name)))]
  for (const { name, files } of given.configMapGenerator ?? []) {
    const data = Object.fromEntries(files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
    all.push({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data })
  }
  for (const component of given.components ?? []) all = render(join(folder, component), all)
  for (const { path } of given.patches ?? []) {
    const patch = parse(readFileSync(join(folder, path), 'utf8')) as Manifest
    const target = all.findIndex(
      (one) => one.kind === patch.kind && one.metadata.name === patch.metadata.name,
    )
    if (target < 0) throw new Error(`${path} in ${folder} patches nothing`)
    all[target] = merged(all[target] as unknown as Json, patch as unknown as Json) as unknown as Manifest
  }
  for (const { name, newName, newTag } of given.images ?? []) {
    all = all.map(
      (one) => withImage(one as unknown as Json, name, `${newName}:${newTag}`) as unknown as Manifest,
    )
  }
  const { namespace } = given
  if (namespace === undefined) return all
  return all.map((one) =>
    one.kind === 'Namespace' ? one : { ...one, metadata: { ...one.metadata, namespace } },
  )
}

function resource(path: string): Manifest[] {
  if (statSync(path).isDirectory()) return render(path)
  return parseAllDocuments(readFileSync(path, 'utf8')).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    return document.toJS() as Manifest
  })
}

/** A patch merges these lists by a key of their items, and replaces all other lists. */
const KEYS: Readonly<Record<string, string>> = {
  containers: 'name',
  env: 'name',
  volumes: 'name',
  volumeMounts: 'mountPath',
}

function merged(base: Json | undefined, patch: Json, field = ''): Json {
  const key = KEYS[field]
  if (Array.isArray(base) && Array.isArray(patch) && key !== undefined) return mergedLists(base, patch, key)
  if (!isObject(base) || !isObject(patch)) return patch
  const result: Record<string, Json> = { ...base }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merged(base[name], value, name)
  }
  return result
}

function mergedLists(base: readonly JsonObject[], patch: readonly JsonObject[], key: string): Json {
  const isNew = (one: JsonObject) => !base.some((other) => other[key] === one[key])
  const changed = base.map((one) => {
    const change = patch.find((other) => other[key] === one[key])
    return change === undefined ? one : merged(one, change)
  })
  return [...changed, ...patch.filter(isNew)]
}

function withImage(value: Json, name: string, image: string): Json {
  if (Array.isArray(value)) return value.map((one) => withImage(one, name, image))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === 'image' && inner === name ? image : withImage(inner, name, image),
    ]),
  )
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
