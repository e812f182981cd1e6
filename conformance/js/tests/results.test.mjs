// What code shows: every representation, data frames, pictures and charts.

import assert from 'node:assert/strict'

import { check } from '../harness.mjs'
import { interpreterGroup } from '../interpreters.mjs'

const PLOT = 'import matplotlib.pyplot as plt\n'

const startsWith = (base64, bytes) => Buffer.from(base64, 'base64').subarray(0, bytes.length).equals(Buffer.from(bytes))
const isPng = (base64) => startsWith(base64, [0x89, 0x50, 0x4e, 0x47])
const isJpeg = (base64) => startsWith(base64, [0xff, 0xd8, 0xff])

interpreterGroup('results', ({ run }) => {
  const representations = [
    ["HTML('<b>h</b>')", 'html', '<b>h</b>'],
    ["Markdown('*m*')", 'markdown', '*m*'],
    ["Latex('$l$')", 'latex', '$l$'],
    ["JSON({'a': [1, None]})", 'json', { a: [1, null] }],
    ["Javascript('j()')", 'javascript', 'j()'],
    ['SVG(\'<svg xmlns="http://www.w3.org/2000/svg"/>\')', 'svg', '<svg xmlns="http://www.w3.org/2000/svg"/>'],
    ["{'application/pdf': 'cGRm'}", 'pdf', 'cGRm'],
    ["{'image/png': 'cG5n'}", 'png', 'cG5n'],
    ["{'image/jpeg': 'anBlZw=='}", 'jpeg', 'anBlZw=='],
    ["{'e2b/data': {'column': [1, 2]}}", 'data', { column: [1, 2] }],
  ]
  for (const [shown, field, value] of representations)
    check('interpreter.results', `${field} has its field`, async () => {
      const raw = shown.startsWith('{') ? 'True' : 'False'
      const { results } = await run(`from IPython.display import *\ndisplay(${shown}, raw=${raw})`)
      assert.equal(results.length, 1)
      assert.deepEqual(results[0][field], value)
      assert.deepEqual(results[0].formats(), [field])
      assert.deepEqual([results[0].isMainResult, results[0].extra], [false, {}])
    })

  check('interpreter.results', 'what has no field is kept by its type', async () => {
    const bundle = "{'image/gif': 'R0lG', 'application/vnd.own.v1+json': {'k': [1.5, None]}}"
    const [result] = (await run(`display(${bundle}, raw=True)`)).results
    assert.deepEqual(result.raw.extra, { 'image/gif': 'R0lG', 'application/vnd.own.v1+json': { k: [1.5, null] } })
  })

  check('interpreter.results', 'displays come in order and only the value is the main result', async () => {
    const { results } = await run("display(1, 2)\nprint('between')\ndisplay('three')\n'four'")
    const seen = results.map((result) => [result.text, result.isMainResult])
    assert.deepEqual(seen, [['1', false], ['2', false], ['three', false], ['four', true]])
  })

  check('interpreter.results', 'the text is the repr, and lists and dictionaries are JSON too', async () => {
    assert.equal((await run("'it is'")).text, 'it is')
    assert.equal((await run("''")).text, '')
    assert.equal((await run("(1, 'a')")).text, "(1, 'a')")
    const [result] = (await run("[1, 'a', None, float('nan'), {'k': True}]")).results
    assert.deepEqual(result.json, [1, 'a', null, null, { k: true }])
  })

  // Both SDKs look through a line from its start for each piece that arrives, so that fifty mebibytes take them
  // minutes. The Python ones get that much.
  check('interpreter.results', 'a result of four mebibytes arrives', async () => {
    const execution = await run("'z' * (4 << 20)")
    assert.equal(execution.text.length, 4 << 20)
  })

  check('interpreter.data', 'a data frame comes as text, table and data', async () => {
    const code = "import pandas as pd\npd.DataFrame({'n': [1.5, None], 't': pd.to_datetime(['2024-01-02', None]), 'd': pd.to_timedelta([1, 2], 'D')})"
    const { results, logs } = await run(code)
    const [frame] = results
    assert.ok(frame.html.includes('<table') && frame.text.includes('1.5') && frame.isMainResult)
    assert.deepEqual(frame.data.n, [1.5, null])
    assert.ok(frame.data.t[0].startsWith('2024-01-02T00:00:00'))
    assert.ok(frame.data.d[0].startsWith('1 day'))
    assert.deepEqual([frame.extra, logs.stderr], [{}, []])
  })

  check('interpreter.images', 'pictures have the forms they can have', async () => {
    const [red] = (await run("from PIL import Image\nImage.new('RGB', (8, 8), 'red')")).results
    assert.ok(isPng(red.png) && isJpeg(red.jpeg))
    const [shown] = (await run("Image.new('L', (4, 4)).show()")).results
    assert.ok(isPng(shown.png) && !shown.isMainResult)
  })

  check('interpreter.images', 'figures are shown where they are asked for and at the end', async () => {
    const asked = (await run(`${PLOT}plt.plot([1])\nplt.show()\ndisplay('after')`)).results
    assert.deepEqual(asked.map((result) => Boolean(result.png)), [true, false])
    const [value, figure] = (await run('plt.plot([1, 2])')).results
    assert.ok(value.isMainResult && isPng(figure.png) && !figure.isMainResult)
  })

  const charts = [
    ['line', "plt.plot([1, 2], [3, 4], label='l')", [{ label: 'l', points: [[1, 3], [2, 4]] }]],
    ['scatter', "plt.scatter([1], [2], label='A')", [{ label: 'A', points: [[1, 2]] }]],
    ['bar', "plt.bar(['a', 'b'], [1, 2], label='g')", [{ label: 'a', group: 'g', value: 1 }, { label: 'b', group: 'g', value: 2 }]],
    ['pie', "plt.pie([90, 10], labels=['most', 'some'])", [{ label: 'most', angle: 324, radius: 1 }, { label: 'some', angle: 36, radius: 1 }]],
    ['unknown', 'plt.imshow([[1, 2], [3, 4]])', []],
  ]
  for (const [type, code, elements] of charts)
    check('interpreter.charts', `a chart of the kind ${type} has its elements`, async () => {
      const { results, logs } = await run(`${PLOT}${code}\nplt.title('T')\nplt.show()`)
      assert.equal(results.length, 1)
      assert.deepEqual([results[0].chart.type, results[0].chart.title], [type, 'T'])
      assert.deepEqual(results[0].chart.elements, elements)
      assert.ok(isPng(results[0].png))
      assert.deepEqual(logs.stderr, [])
    })

  check('interpreter.charts', 'a box has its quartiles', async () => {
    const code = "plt.boxplot([[1, 2, 3, 4, 5]], patch_artist=True, tick_labels=['b'])\nplt.show()"
    const [{ chart }] = (await run(PLOT + code)).results
    const box = { label: 'b', min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 5, outliers: [] }
    assert.deepEqual([chart.type, chart.elements], ['box_and_whisker', [box]])
  })

  check('interpreter.charts', 'several axes are one chart of charts, each with its scale', async () => {
    const code = 'f, (a, b) = plt.subplots(1, 2)\na.semilogy([1, 10])\nb.scatter([1], [2])\nplt.show()'
    const [{ chart }] = (await run(PLOT + code)).results
    assert.deepEqual([chart.type, chart.elements.map((part) => part.type)], ['superchart', ['line', 'scatter']])
    assert.deepEqual(chart.elements.map((part) => part.y_scale), ['log', 'linear'])
  })
})
