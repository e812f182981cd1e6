package skep.kernel;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;

/**
 * The current folder. By contract it is the property {@code user.dir}; files that are opened by a relative path, and child
 * processes, go by that of the process, which only the C library can change.
 */
final class Folder {
    private Folder() {}

    static void enter(String path) throws IOException {
        Path folder = Path.of(System.getProperty("user.dir")).resolve(path).normalize();
        if (!Files.exists(folder)) {
            throw new NoSuchFileException(folder.toString());
        }
        if (!Files.isDirectory(folder)) {
            throw new NotDirectoryException(folder.toString());
        }
        if (!Native.chdir(folder.toString())) {
            throw new FileSystemException(folder.toString(), null, "cannot be entered");
        }
        System.setProperty("user.dir", folder.toString());
    }
}
