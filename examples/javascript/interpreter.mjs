// State, streaming, files and a plot.

import { writeFile } from 'node:fs/promises'
import { Sandbox } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create()
try {
  await sandbox.files.write('/home/user/cities.csv', 'city,degrees\nOslo,4\nRome,16\nCairo,28\n')
  await sandbox.runCode("import pandas as pd\ncities = pd.read_csv('/home/user/cities.csv')")
  const mean = await sandbox.runCode('float(cities.degrees.mean())')
  console.log('mean:', mean.text)

  await sandbox.runCode('for city in cities.city:\n    print(city, flush=True)', {
    onStdout: (message) => console.log('printed:', message.line.trim()),
  })

  const failed = await sandbox.runCode('cities.nothing')
  console.log('failed:', failed.error.name)

  const shown = await sandbox.runCode('import matplotlib.pyplot as plt\nplt.bar(cities.city, cities.degrees)\nplt.show()')
  const target = process.argv[2] ?? 'plot.png'
  await writeFile(target, Buffer.from(shown.results[0].png, 'base64'))
  console.log('wrote', target)

  const squares = await sandbox.runCode('[1, 2, 3].map((x) => x * x)', { language: 'js' })
  console.log('in JavaScript:', squares.text)
} finally {
  await sandbox.kill()
}
