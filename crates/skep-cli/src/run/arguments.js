process.argv.splice(1, Infinity, ...JSON.parse(process.env._RUN_ORDER)); delete process.env._RUN_ORDER; undefined
