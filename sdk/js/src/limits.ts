/** What one execution may use. What is left out has no limit. It holds for its execution alone. */
export interface Limits {
  /** Wall-clock time, in seconds. Reached, it interrupts the code as Ctrl-C would; variables are kept. */
  time?: number
  /** Processor time of all processes that the code starts, in seconds. */
  cpu?: number
  /** Memory of all processes of the context together: bytes, or text such as `512M` and `2G`, in steps of 1024. */
  memory?: number | string
}

const SIZE = /^(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?$/i
const UNITS = ['', 'K', 'M', 'G', 'T']

/** The limits as a request says them. */
export function limitsToWire(limits: Limits): Record<string, number> {
  const said: Record<string, number> = {}
  for (const [name, key] of [['time', 'time_seconds'], ['cpu', 'cpu_seconds']] as const) {
    const value = limits[name]
    if (value === undefined) continue
    if (!(value > 0)) throw new RangeError(`the limit \`${name}\` is ${value}, and has to be a number of seconds above 0`)
    said[key] = value
  }
  if (limits.memory !== undefined) said.memory_bytes = size(limits.memory)
  const unknown = Object.keys(limits).filter((name) => !['time', 'cpu', 'memory'].includes(name))
  // A limit with a mistyped name would be no limit.
  if (unknown.length > 0) throw new RangeError(`there are the limits time, cpu and memory, and not ${unknown.join(', ')}`)
  return said
}

/** A number of bytes, from itself or from text such as `512M`. */
export function size(text: number | string): number {
  let value = text
  if (typeof value === 'string') {
    const found = SIZE.exec(value.trim())
    if (!found) throw new RangeError(`'${text}' is not a size; write bytes, or something like '512M' or '2G'`)
    value = Math.floor(Number(found[1]) * 1024 ** UNITS.indexOf((found[2] ?? '').toUpperCase()))
  }
  if (!(value > 0)) throw new RangeError(`'${text}' is not a size; it has to be above 0`)
  return value
}
