/** The folder that a terminal was asked for, until it is opened there. */
export const openHere = { cwd: undefined as string | undefined };
