import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.List;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** Says whether Java trusts a certificate: Verify AUTHORITIES.pem CERTIFICATE.der NAME. */
public class Verify {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
        authorities.load(null, null);
        try (InputStream file = new FileInputStream(arguments[0])) {
            authorities.setCertificateEntry("authority", factory.generateCertificate(file));
        }
        X509Certificate certificate;
        try (InputStream file = new FileInputStream(arguments[1])) {
            certificate = (X509Certificate) factory.generateCertificate(file);
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance("PKIX");
        managers.init(authorities);
        try {
            for (TrustManager manager : managers.getTrustManagers()) {
                ((X509TrustManager) manager).checkServerTrusted(new X509Certificate[] {certificate}, "ECDHE_ECDSA");
            }
            if (!isFor(certificate, arguments[2])) {
                throw new CertificateException("it is for " + certificate.getSubjectAlternativeNames());
            }
            System.out.println("trusted");
        } catch (CertificateException refusal) {
            System.err.println(refusal);
            System.out.println("refused");
        }
    }

    /** Compares the names as a client does that asks for one: a star stands for one label. */
    private static boolean isFor(X509Certificate certificate, String name) throws CertificateException {
        Collection<List<?>> names = certificate.getSubjectAlternativeNames();
        String parent = name.substring(name.indexOf('.') + 1);
        return names.stream().map(entry -> String.valueOf(entry.get(1)))
            .anyMatch(other -> other.equals(name) || other.equals("*." + parent));
    }
}
